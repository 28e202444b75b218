"""Reads what a manifest says around a command: environment, image, folder, mounts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditor.errors import Unreadable
from auditor.model import Pin, Variable
from auditor.serve.scripts.masking import is_masked
from auditor.serve.scripts.traced import Expanded, expand
from auditor.serve.scripts.variables import Read
from auditor.serve.scripts.words import Setting
from auditor.serve.scripts.yamltree import Listing, Mapping, Node, Scalar, YamlFile

ENVIRONMENT = ("environment", "env", "envs", "variables")

MOST_VISITS = 400_000
"""Values looked at, each alias again: what expands to more is a bomb."""

MOST_VARIABLES = 2000

_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)")


@dataclass(frozen=True)
class Scope:
    """What the mappings around a value say of it; ``keys`` are the names down to it."""

    setting: Setting
    keys: tuple[str, ...] = ()
    around: tuple[Mapping, ...] = ()
    volumes: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """What the file calls the mapping, empty for the document itself."""
        return self.keys[-1] if self.keys else ""


class Surroundings:
    """Reads the scopes of one file.

    ``outside`` are the variables that compose itself replaces in the file (`.env` beside it).
    """

    def __init__(self, file: YamlFile, path: str, read: Read) -> None:
        self.file = file
        self.path = path
        self.outside: dict[str, str] = {}
        self._read = read
        self._visits = 0

    def visit(self, amount: int = 1) -> None:
        """Counts what is looked at; raises ``Unreadable`` where aliases make it too much."""
        self._visits += amount
        if self._visits > MOST_VISITS:
            raise Unreadable(f"aliases expand to more than {MOST_VISITS} values")

    def place(self, scalar: Scalar) -> tuple[int, int]:
        """Line and column of the first character of a value."""
        return self.file.position(self.file.begin(scalar))

    def scope(self, node: Mapping, outer: Scope) -> Scope:
        """The scope within a mapping."""
        setting = outer.setting
        variables = setting.environment
        added = [*self._env_files(node.get("env_file"))]
        for name in ENVIRONMENT:
            added.extend(self.variables(node.get(name), (*variables, *added)))
        if added:
            variables = (*variables, *added)[:MOST_VARIABLES]
            self.visit(len(variables) // 10)
        image: Node | None = node.get("image", "container", "container_image")
        pins = setting.pins
        if isinstance(image, Mapping):
            image = self._repository(image)
        if isinstance(image, Scalar) and image.text:
            text = self.expanded(image.text, variables).text
            pins = (Pin("image", text, self.path, *self.place(image)),)
        folder = node.get("working_dir", "workingDir", "workdir", "working-directory")
        volumes = {**dict(outer.volumes), **self._volumes(node.get("volumes"))}
        volumes = dict(list(volumes.items())[:MOST_VARIABLES])
        mounts = (*setting.mounts, *self._mounts(node, volumes))[:MOST_VARIABLES]
        return replace(
            outer,
            setting=Setting(
                variables,
                folder.text if isinstance(folder, Scalar) else setting.folder,
                pins,
                mounts,
            ),
            around=(*outer.around, node),
            volumes=tuple(volumes.items()),
        )

    def _repository(self, image: Mapping) -> Node | None:
        """Helm's ``image: {repository, tag}`` as one name."""
        name, tag = image.get("repository", "name"), image.get("tag")
        if not isinstance(name, Scalar):
            return None
        if isinstance(tag, Scalar) and tag.text:
            return Scalar(f"{name.text}:{tag.text}", name.start, name.end, name.style)
        return name

    def variables(self, node: Node | None, known: Sequence[Variable]) -> Iterator[Variable]:
        """Those of a map, of a list of ``NAME=value`` or of ``{name, value}``."""
        if isinstance(node, Mapping):
            for key, value in node.merged():
                yield self._variable(key, key.text, value, known)
        before = list(known)
        for item in node.items if isinstance(node, Listing) else ():
            if isinstance(item, Mapping):
                name = item.get("name")
                if not isinstance(name, Scalar):
                    continue
                found = self._variable(name, name.text, item.get("value"), before)
            elif isinstance(item, Scalar):
                name_text, equals, value_text = item.text.partition("=")
                given = Scalar(value_text, item.start, item.end, item.style) if equals else None
                found = self._variable(item, name_text, given, before)
            else:
                continue
            # Kubernetes lets a variable refer to those above it.
            before.append(found)
            yield found

    def _variable(
        self, place: Scalar, name: str, value: Node | None, known: Sequence[Variable]
    ) -> Variable:
        if not isinstance(value, Scalar) or (value.plain and value.text in {"", "null", "~"}):
            return Variable(name, f"${name}", self.path, *self.place(place), resolved=False)
        text = self.expanded(value.text, known)
        return Variable(name, text.text, self.path, *self.place(place), resolved=text.resolved)

    def _env_files(self, node: Node | None) -> Iterator[Variable]:
        names = node.items if isinstance(node, Listing) else [node]
        for listed in names:
            name = listed.get("path") if isinstance(listed, Mapping) else listed
            if isinstance(name, Scalar) and not is_masked(name.text) and "$" not in name.text:
                yield from self.env_file(name.text)

    def env_file(self, name: str) -> Iterator[Variable]:
        """The variables of a file beside this one."""
        where = posixpath.join(posixpath.dirname(self.path), name)
        data = self._read(where) or b""
        for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
            match = _ASSIGNMENT.match(line)
            if match:
                value = match.group(2).strip()
                if len(value) > 1 and value[0] in {"'", '"'} and value[-1] == value[0]:
                    value = value[1:-1]
                column = match.start(1) + 1
                yield Variable(match.group(1), value, where, number, column)

    def expanded(self, text: str, variables: Sequence[Variable] = ()) -> Expanded:
        """A text after what compose and Kubernetes replace in it."""
        if "$" not in text and not is_masked(text):
            return Expanded(text)
        self.visit(1 + len(variables) // 50)
        given = {v.name: v.value if v.resolved else None for v in variables}
        expanded = expand(text, given, self.outside)
        if is_masked(expanded.text):
            return replace(expanded, resolved=False)
        return expanded

    def _volumes(self, node: Node | None) -> dict[str, str]:
        """The paths outside of a pod's named volumes, where the manifest tells them."""
        found: dict[str, str] = {}
        for item in node.items if isinstance(node, Listing) else ():
            if isinstance(item, Mapping):
                name, host = item.get("name"), item.get("hostPath")
                path = host.get("path") if isinstance(host, Mapping) else None
                if isinstance(name, Scalar) and isinstance(path, Scalar):
                    found[name.text] = path.text
        return found

    def _mounts(self, node: Mapping, volumes: dict[str, str]) -> Iterator[tuple[str, str]]:
        listed = node.get("volumeMounts")
        for item in listed.items if isinstance(listed, Listing) else ():
            if isinstance(item, Mapping):
                name, inside = item.get("name"), item.get("mountPath")
                if isinstance(name, Scalar) and isinstance(inside, Scalar) and name.text in volumes:
                    yield inside.text, volumes[name.text]
        listed = node.get("volumes")
        for item in listed.items if isinstance(listed, Listing) else ():
            if isinstance(item, Mapping):
                source, target = item.get("source"), item.get("target")
                if isinstance(source, Scalar) and isinstance(target, Scalar):
                    yield target.text, source.text
            elif isinstance(item, Scalar) and not is_masked(item.text):
                # `${HOME:-/root}/x:/y`: the colon of a default parts nothing.
                parts = re.sub(r"\$\{[^}]*\}", lambda m: m.group().replace(":", "\0"), item.text)
                outside, _, inside_text = parts.partition(":")
                if inside_text.startswith("/"):
                    yield inside_text.split(":")[0], outside.replace("\0", ":")
