"""What the command writes: reports to standard output and files, the rest to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.errors import UsageProblem

# Late, as in the commands: --help stays quick.
if TYPE_CHECKING:
    from auditor.config import Settings


_DOES = {
    "open": "opening the fork and what it is held against",
    "recall": "looking for an earlier result",
    "serve": "reading serve scripts",
    "confirm": "reading a second time what would be reported",
    "conditions": "looking for the settings under which findings run",
    "closest": "looking for the release that the fork is based on",
    "drift": "looking for what the fork misses",
}
_STEPS = {
    "read": "reading tree",
    "analyse": "following reads and waits in tree",
    "releases": "judging release",
}
_COUNTS = {
    "scout": ("searching", "file", "for what waits"),
    "judge": ("holding", "reader", "against the siblings"),
    "origin": ("asking the other trees about", "finding", ""),
    "compare": ("comparing", "file", "with upstream's"),
    "accept": ("matching", "finding", "with suppressions and the baseline"),
    "fixed where": ("looking for the release that fixed", "finding", ""),
    "cut out": ("taking source lines for", "finding", ""),
    "follow": ("following findings through", "release", ""),
    "commits": ("looking for the commit that ended", "finding", ""),
}
"""What each stage does, in words of a user."""


def stage_line(stage: str, done: int, total: int) -> str:
    """What a stage does to how much, or at which of its steps it is."""
    from auditor.formats.text import count

    if stage in _STEPS:
        return f"{_STEPS[stage]} {min(done + 1, total):,} of {total:,}"
    if stage in _COUNTS:
        before, noun, after = _COUNTS[stage]
        return f"{before} {count(total, noun)} {after}".rstrip()
    return _DOES.get(stage, stage)


def save(file: Path, text: str) -> None:
    """Writes a file that was asked for; raises UsageProblem where that cannot be done."""
    try:
        write(file, text)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageProblem(f"cannot write {file}: {reason}") from problem


def write(path: Path, text: str) -> None:
    """Writes a file at once, so that no reader sees half of it; a device is written as it is."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    with new.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            new.replace(path)
        except BaseException:
            new.unlink()
            raise


def show(text: str) -> None:
    """Writes to standard output; a reader that has seen enough (head) is no problem."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        # What is left in the buffer would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):
            reason = problem.strerror or problem
            raise UsageProblem(f"cannot write the report: {reason}") from problem


def page(text: str) -> None:
    """Writes to standard output, on a terminal through a pager as git does it.

    The pager is the shell command in ``PAGER``, else less; a page that fits the terminal is only
    printed. Without a pager (``PAGER`` empty or ``cat``, no less) or where it fails, so it is too.
    """
    import shutil

    dumb = os.environ.get("TERM") == "dumb"
    pager = os.environ.get("PAGER", "less" if shutil.which("less") and not dumb else "").strip()
    if not sys.stdout.isatty() or pager in ("", "cat") or not _paged(pager, text):
        show(text)


def _paged(pager: str, text: str) -> bool:
    """Whether a pager has shown the text, as much of it as the user wanted."""
    import signal
    import subprocess

    sys.stdout.flush()
    data = text.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
    # As git has it: ends where all fits the screen, keeps colour, leaves the page on the screen.
    environment = {"LESS": "FRX", "LV": "-c", **os.environ}
    interrupts: list[int] = []
    # Ctrl-C is the pager's to act on: it holds the terminal until it ends.
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        process = subprocess.Popen(pager, shell=True, stdin=subprocess.PIPE, env=environment)
        process.communicate(data)
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return process.returncode == 0 or bool(interrupts)


def show_bytes(data: bytes) -> None:
    """Writes to standard output as it is; a terminal is shown no control character of the fork."""
    from auditor.formats.text import printable

    if sys.stdout.isatty():
        lines = data.decode("utf-8", "backslashreplace").split("\n")
        show("\n".join(map(printable, lines)))
        return
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as problem:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(problem, BrokenPipeError):
            raise UsageProblem(
                f"cannot write the patch: {problem.strerror or problem}"
            ) from problem


def tell(text: str) -> None:
    """Writes to standard error, where everything goes that is not the report."""
    from auditor.formats.text import printable

    try:
        sys.stderr.write("\n".join(map(printable, text.split("\n"))) + "\n")
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def tell_traceback(arguments: Sequence[str]) -> None:
    """Says where an exception came from, if the arguments ask for more."""
    if {"-v", "--verbose"} & set(arguments):
        import traceback

        tell(traceback.format_exc().rstrip())


def tell_timings(timings: dict[str, float]) -> None:
    """Says how many seconds each stage took."""
    width = max(map(len, (*timings, "all")))
    rows = [*timings.items(), ("all", sum(timings.values()))]
    tell("\n".join(f"{stage.ljust(width)}  {seconds:7.3f} s" for stage, seconds in rows))


class Progress:
    """One line on standard error that says what is going on; nothing where that is no terminal."""

    def __init__(self, settings: Settings) -> None:
        """``settings`` may ask for quiet."""
        dumb = os.environ.get("TERM") == "dumb"
        self.shown = sys.stderr.isatty() and not settings.quiet and not dumb
        self.line = ""

    def __enter__(self) -> Progress:
        return self

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Says what a stage does to how much; of steps, which one of ``total`` it is at."""
        line = stage_line(stage, done, total)
        if self.shown and line != self.line:
            self.line = line
            sys.stderr.write(f"\r\x1b[2K{line[:78]}")
            sys.stderr.flush()

    def __exit__(self, *_: object) -> None:
        if self.line:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
