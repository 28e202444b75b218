"""What each command does, in order."""
