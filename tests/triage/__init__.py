"""Tests of how hits become findings."""
