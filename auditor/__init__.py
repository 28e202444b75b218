"""Audits a patched sglang tree against the upstream release it came from."""

__version__ = "0.1.0"
