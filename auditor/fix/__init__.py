"""Edits that put findings right, and the care with which they reach the files."""
