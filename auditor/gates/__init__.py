"""Sums up who reads what behind which gate, and judges it by siblings."""
