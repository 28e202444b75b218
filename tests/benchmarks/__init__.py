"""Programs that measure the analysis on real releases; see README.md in this folder."""
