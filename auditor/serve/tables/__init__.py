"""What a tree of sglang says of its own settings: parsers, encoders, templates and flags."""
