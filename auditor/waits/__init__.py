"""Waits that one version of a function makes, held against another version of it."""
