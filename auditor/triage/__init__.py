"""Turns hits into findings: identity, origin, severity."""
