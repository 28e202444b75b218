"""Launches held against the tree that they start: a module for each subject of rules."""
