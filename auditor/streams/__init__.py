"""Side streams and copies to the host: what starts on them, and what it waits for."""
