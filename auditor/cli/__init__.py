"""The command line: a module a command, its options, and what it writes."""
