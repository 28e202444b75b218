"""Findings over a row of releases: where each began, and what ended it."""
