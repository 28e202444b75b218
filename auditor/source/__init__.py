"""Reads Python files into plain facts and resolves names between them."""
