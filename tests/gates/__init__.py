"""Tests of the gate analysis."""
