"""Reads what an installed package says of itself, from the ``dist-info`` beside it."""

from __future__ import annotations

import contextlib
import re
from email.parser import BytesHeaderParser

import msgspec
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from auditor.repo.files import DiskFiles
from auditor.repo.references import DISTRIBUTION
from auditor.repo.snapshot import PACKAGE, Snapshot, on_disk

_SUFFIX = ".dist-info"
_MOST = 2000  # of such folders; an environment has some hundreds
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class Distribution(msgspec.Struct, frozen=True, order=True):
    """A distribution by its normalized name, and its version."""

    name: str
    version: str

    @property
    def release(self) -> Version | None:
        """The version where this is a release of upstream's own, None for any other."""
        version = Version(self.version)
        own = self.name == DISTRIBUTION and not version.is_prerelease and not version.local
        return version if own else None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def distributions(tree: Snapshot) -> tuple[Distribution, ...]:
    """The distributions that say they brought the package into a folder, by name.

    One is the rule; a second is left over from an upgrade, or of a fork under another name. What is
    listed in ``RECORD`` counts (binary distribution format, PyPA specifications). Nothing outside
    of the folder that was given is read.
    """
    if tree.folder is None or not isinstance(tree.files, DiskFiles) or tree.kind != "directory":
        return ()
    root, parent = tree.files.root, tree.folder.rpartition("/")[0]
    if not tree.folder:
        return ()
    beside = sorted(name for name in on_disk(root)(parent) if name.endswith(_SUFFIX))[:_MOST]
    folders = [f"{parent}/{name}".lstrip("/") for name in beside]
    names = [f"{folder}/{file}" for folder in folders for file in ("METADATA", "RECORD")]
    files = DiskFiles(root, [name.encode("utf-8", "surrogateescape") for name in names])
    told = dict(zip(files.names, files.read(files.names), strict=True))
    return tuple(
        sorted(
            found
            for folder in folders
            if _brings(told.get(f"{folder}/RECORD"))
            if (found := _named(told.get(f"{folder}/METADATA")))
        )
    )


def _brings(record: object) -> bool:
    """Whether a ``RECORD`` lists a Python file of the package."""
    if not isinstance(record, bytes):
        return False
    return re.search(rb"^\"?%b/[^,\n]*\.py\b" % PACKAGE.encode(), record, re.MULTILINE) is not None


def _named(metadata: object) -> Distribution | None:
    if not isinstance(metadata, bytes):
        return None
    headers = BytesHeaderParser().parsebytes(metadata[: 1 << 20])
    name, version = str(headers["Name"] or ""), str(headers["Version"] or "")
    with contextlib.suppress(InvalidVersion):
        if _NAME.fullmatch(name):
            return Distribution(canonicalize_name(name), str(Version(version)))
    return None
