"""Reads the scripts that start servers."""
