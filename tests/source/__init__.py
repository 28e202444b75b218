"""Tests of what is read from source files."""
