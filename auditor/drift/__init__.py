"""Where a fork stands against a newer upstream: fixes it misses, and what became of its patches."""
