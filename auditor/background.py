"""Runs one piece of work in a second process while the first goes on."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Generic, TypeVar

T = TypeVar("T")

_PATIENCE = 10  # steps of niceness


class Background(Generic[T]):
    """Work started at once in a forked child; ``result`` waits for it.

    What the child cannot do (it died, its result cannot be sent, the platform cannot fork) is done
    in this process when the result is asked for, so that the outcome, errors included, is the same.
    """

    def __init__(
        self, work: Callable[[], T], *, alone: bool = False, patient: bool = False
    ) -> None:
        """``alone`` asks for no second process; ``patient`` work lets every other go first."""
        self._work = work
        self._process: multiprocessing.process.BaseProcess | None = None
        # A child has no children: two cores are busy already, and a daemon may start none.
        inner = multiprocessing.current_process().daemon
        if alone or inner or sys.platform in ("win32", "darwin"):
            return
        context = multiprocessing.get_context("fork")
        self._receiver, sender = context.Pipe(duplex=False)

        def run() -> None:
            with contextlib.suppress(Exception, KeyboardInterrupt):
                if patient:
                    os.nice(_PATIENCE)
                sender.send(work())
            sender.close()

        with contextlib.suppress(OSError):
            process = context.Process(target=run, daemon=True)
            process.start()
            self._process = process
        sender.close()

    @staticmethod
    def first(running: Sequence[Background[T]]) -> int:
        """The place of one whose outcome is there, waited for; 0 where none runs beside."""
        receivers = {id(one._receiver): n for n, one in enumerate(running) if one._process}
        if len(receivers) < len(running):
            return next((n for n, one in enumerate(running) if one._process is None), 0)
        ready = wait([one._receiver for one in running])
        return min(receivers[id(receiver)] for receiver in ready)

    def result(self) -> T:
        """The outcome of the work; raises what it raises."""
        if self._process is None:
            return self._work()
        try:
            found: T = self._receiver.recv()
        except (EOFError, OSError, ValueError, TypeError, ImportError):
            return self._work()
        finally:
            self._receiver.close()
            self._process.join(timeout=5)
        return found
