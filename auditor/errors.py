"""The failures a user can act on, each ending in one clear line."""

from __future__ import annotations


class UsageProblem(Exception):
    """A usage, configuration or reference error: the command exits with status 2.

    The message is one line (a second one may name a way out) and is meant for the person at the
    terminal: it says what is wrong and what to do.
    """


class Unreadable(Exception):
    """One file or object could not be read; callers turn it into a ``Skipped`` and go on."""
