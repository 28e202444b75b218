"""Reads the launches of YAML files: compose, Kubernetes, Helm, workflows, task files, recipes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from auditor.errors import Unreadable
from auditor.model import Launch, Pin, Skipped
from auditor.serve.scripts import recipe
from auditor.serve.scripts.command import launch_of
from auditor.serve.scripts.inner import read_inner, restored
from auditor.serve.scripts.masking import Masked, mask
from auditor.serve.scripts.surroundings import ENVIRONMENT, Scope, Surroundings
from auditor.serve.scripts.traced import Traced, split
from auditor.serve.scripts.variables import Read
from auditor.serve.scripts.words import Setting, Word
from auditor.serve.scripts.yamltree import Listing, Mapping, Node, Scalar, YamlFile

MOST_LAUNCHES = 1000
MOST_NESTED = 2
"""Files within files within the file."""

_ENTRY = ("entrypoint", "command", "cmd", "args", "arguments", "argv")
_TEXTS = frozenset(
    {
        *("run", "script", "commands", "before_script", "after_script", "setup", "user_data"),
        *("start", "start_command", "startCommand", "onStart", "entrypoint", "command", "cmd"),
        *("args", "inline", "shell", "bash", "exec", "postStart", "source"),
    }
)
_TEXT_NAMED = re.compile(r"(?:cmd|command|run|script|exec|launch|serve|start)|\.(?:ba)?sh$", re.I)
_PROSE = re.compile(r"prompt|readme|description|comment|message|title|note|help|summary|body", re.I)
_STARTS = re.compile(
    r"sglang\.launch_server|\bsglang(?:-diffusion)?\s+serve|sglang[._-]router|sgl-router|smg\b"
    r"|launch_router|launch_server|dynamo\.sglang|mini_lb|-m\s+sglang\b"
)
_BEGINS = re.compile(
    r"(?:#!|(?:[A-Za-z_]\w*=\S*\s+)*(?:exec\s+|nohup\s+|env\s+)*(?:\S*/)?"
    r"(?:python[\d.]*|sglang|docker|podman|srun|torchrun|bash|sh|uv|smg|sglang-router)\s)"
)
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)")
_IS_YAML = re.compile(r"\.ya?ml$|^values$")
_ROLES = ("prefill", "decode")


def read_manifest(data: bytes, path: str, read: Read) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a YAML file, and what of it could not be read.

    ``read`` finds the files that it names, by a path from the folder that ``path`` starts in.
    Raises ``Unreadable`` where the file is no YAML (also after its templates were masked). A
    document that starts nothing gives nothing.
    """
    manifest = _Manifest(data.decode("utf-8-sig", "replace"), path, read)
    return manifest.launches(), manifest.skipped


def read_config(data: bytes, path: str) -> Launch | None:
    """The flags of a file that ``--config`` names, each at its key, as a launch without a script.

    None where the file holds none. Raises ``Unreadable`` for what is no mapping.
    """
    text = data.decode("utf-8-sig", "replace")
    manifest = _Manifest(text, path, lambda _: None)
    if not manifest.file.documents:
        return None
    root = manifest.file.documents[0]
    if not isinstance(root, Mapping):
        raise Unreadable("no mapping of flags")
    words = manifest.recipe_words(root, conditional=False)
    manifest.add(words, Scope(Setting()), (), "recipe")
    return manifest.found[0] if manifest.found else None


class _Manifest:
    def __init__(self, data: str, path: str, read: Read) -> None:
        self.masked: Masked = mask(data)
        self.file = YamlFile(self.masked.text)
        self.path = path
        self.read = read
        self.skipped: list[Skipped] = []
        self.told = "sglang" in data
        self.found: list[Launch] = []
        self.scripts: dict[tuple[int, int], Traced] = {}
        self.surroundings = Surroundings(self.file, path, read)
        self.compose = False
        self.depth = 0

    def launches(self) -> list[Launch]:
        for document in self.file.documents:
            self.compose = isinstance(document, Mapping) and document.get("services") is not None
            self.surroundings.outside = {}
            if self.compose:
                self.surroundings.outside = {
                    v.name: v.value for v in self.surroundings.env_file(".env")
                }
            try:
                self.walk(document, Scope(Setting()))
            except Unreadable as problem:
                reason = f"{problem}; read in part"
                self.skipped.append(Skipped("fork", self.path, "serve", reason))
                break
        return [restored(launch, self.masked) for launch in dict.fromkeys(self.found)]

    def walk(self, node: Node, scope: Scope) -> None:
        self.surroundings.visit()
        if len(self.found) > MOST_LAUNCHES:
            raise Unreadable(f"holds more than {MOST_LAUNCHES} launches")
        if isinstance(node, Mapping):
            self.mapping(node, scope)
        elif isinstance(node, Listing):
            if recipe.is_flag_list(node.items):
                self.flags([node], scope)
            elif _STARTS.search(_joined(node)) and not _are_lines(node):
                if self.start(list(self.words(node.items, scope)), scope):
                    return
            for item in node.items:
                self.walk(item, scope)
        elif _IS_YAML.search(scope.key) and node.style == "|":
            self.inner(node, scope)
        elif _STARTS.search(node.text):
            self.text(node, scope)

    def mapping(self, node: Mapping, outer: Scope) -> None:
        scope = self.surroundings.scope(node, outer)
        used = self.command(node, scope)
        if self.recipe(node, outer):
            return
        texts = [
            value
            for key, value in node.merged()
            if key.text not in {*used, *ENVIRONMENT} and _is_flags(value)
        ]
        if texts and not used:
            self.flags(texts, scope)
        templates = {key.text for key, _ in node.pairs if key.text.startswith("x-")}
        skip = {*used, *ENVIRONMENT, "volumes", "env_file", "healthcheck"}
        if "services" not in {key.text for key, _ in node.pairs}:
            templates = set()
        for key, value in node.merged():
            if key.text in skip or key.text in templates:
                continue
            self.walk(value, replace(scope, keys=(*scope.keys, key.text)))

    # Commands

    def command(self, node: Mapping, scope: Scope) -> set[str]:
        """Reads entry point, command and arguments as one command; the keys that made a launch."""
        pieces = {key.text: value for key, value in node.merged() if key.text in _ENTRY}
        if not pieces or any(isinstance(value, Mapping) for value in pieces.values()):
            return set()
        before = len(self.found)
        ordered = [pieces[name] for name in _ENTRY if name in pieces]
        words: list[Word] = []
        for piece in ordered:
            if isinstance(piece, Listing):
                if len(ordered) == 1 and _are_lines(piece):
                    self.lines(piece, scope)
                    return set(pieces)
                words.extend(self.words(piece.items, scope))
            elif isinstance(piece, Scalar):
                if _waits_for_text(words):
                    words.append(self.word(self.traced(piece), scope))
                elif len(ordered) == 1 and "\n" in piece.text.strip():
                    self.text(piece, scope)
                    return set(pieces)
                else:
                    parts = split(self.traced(piece))
                    words.extend(self.word(part, scope) for part in parts)
        if not self.start(words, scope) and words:
            # Arguments for what the image starts, which may be a script that splits them.
            words = [part for word in words for part in self.meant(word, scope)]
            first = words[0].text
            named = self.names_sglang(scope)
            texts = [word.text for word in words]
            told = self.told and (named or not scope.setting.pins)
            if recipe.is_flag_text(first) and recipe.flags_of_server(texts, named, told):
                key = next(name for name in _ENTRY if name in pieces)
                self.add(words, scope, (*scope.keys, key), "yaml")
        return set(pieces) if len(self.found) > before else set()

    def start(self, words: Sequence[Word], scope: Scope) -> bool:
        """Takes what the words start, a shell's text included; says whether that was anything."""
        before = len(self.found)
        launch = launch_of(words, scope.setting, "yaml", self.script)
        if launch is not None:
            self.found.append(launch)
        return len(self.found) > before

    def words(self, items: Sequence[Node], scope: Scope) -> Iterator[Word]:
        for item in items:
            if isinstance(item, Scalar):
                yield self.word(self.traced(item), scope)
            else:
                line, column = self.file.position(item.start)
                yield Word("{…}", self.path, line, column, resolved=False)

    def parts(self, item: Scalar) -> list[Traced]:
        """The words that an item of a list is meant to be."""
        traced = self.traced(item)
        return split(traced) if recipe.is_flag_and_value(traced.text) else [traced]

    def meant(self, word: Word, scope: Scope) -> list[Word]:
        """The words that one word of a list is meant to be."""
        traced = self.scripts.get((word.line, word.column))
        if traced is None or not recipe.is_flag_and_value(traced.text):
            return [word]
        return [self.word(part, scope) for part in split(traced)]

    def word(self, traced: Traced, scope: Scope) -> Word:
        line, column = self.file.position(traced.start)
        self.scripts[line, column] = traced
        text = self.surroundings.expanded(traced.text, scope.setting.environment)
        return Word(text.text, self.path, line, column, text.resolved)

    def script(self, word: Word, setting: Setting) -> None:
        traced = self.scripts.get((word.line, word.column))
        if traced is not None and word.path == self.path:
            self.run(traced, setting)

    def lines(self, node: Listing, scope: Scope) -> None:
        """Reads a list of commands as the one script that they are."""
        traced = Traced("", [])
        for item in node.items:
            if isinstance(item, Scalar):
                part = self.traced(item)
                end = part.offsets[-1] + 1 if part.offsets else item.end
                text = f"{traced.text}{part.text}\n"
                traced = Traced(text, [*traced.offsets, *part.offsets, end])
        self.run(traced, scope.setting)

    def inner(self, node: Scalar, scope: Scope) -> None:
        """Reads a file within the file (a ConfigMap's, an application's Helm values)."""
        outer, offsets = self.file, self.file.offsets(node)

        def position(offset: int) -> tuple[int, int]:
            return outer.position(offsets[min(offset, len(offsets) - 1)] if offsets else node.start)

        if self.depth >= MOST_NESTED:
            return
        self.depth += 1
        try:
            self.file = self.surroundings.file = YamlFile(node.text, position)
            for document in self.file.documents:
                self.walk(document, replace(scope, around=()))
        except Unreadable as problem:
            line = outer.position(node.start)[0]
            reason = f"the text at line {line}: {problem}"
            self.skipped.append(Skipped("fork", self.path, "serve", reason))
        finally:
            self.file = self.surroundings.file = outer
            self.depth -= 1

    def text(self, node: Scalar, scope: Scope) -> None:
        """Reads a value as shell text where its key or its beginning says that it is a command."""
        key = scope.key
        if key not in _TEXTS:
            if _PROSE.search(key):
                return
            if not _TEXT_NAMED.search(key) and not _BEGINS.match(node.text.lstrip()):
                return
        self.run(self.traced(node), scope.setting)

    def run(self, traced: Traced, setting: Setting) -> None:
        """Hands text to the reader of shell and takes its places back into this file."""
        known = any("sglang" in variable.value for variable in setting.environment)
        if not known and "sglang" not in traced.text and not _STARTS.search(traced.text):
            return
        text = traced.replaced("$$", "$") if self.compose else traced
        text = text.referring({variable.name: None for variable in setting.environment})
        launches, skipped = read_inner(
            text, self.path, setting, self.file.position, "yaml", self.read
        )
        self.found.extend(launches)
        self.skipped.extend(skipped)

    def traced(self, scalar: Scalar) -> Traced:
        """A value with its places, without the lines that only steer the template."""
        offsets = self.file.offsets(scalar)
        if not self.masked.blanked:
            return Traced(scalar.text, offsets, self.file.begin(scalar))
        kept = [
            (letter, offset)
            for letter, offset in zip(scalar.text, offsets, strict=True)
            if self.file.position(offset)[0] not in self.masked.blanked
        ]
        text = "".join(letter for letter, _ in kept)
        return Traced(text, [offset for _, offset in kept], self.file.begin(scalar))

    # Settings without a command

    def recipe(self, node: Mapping, scope: Scope) -> bool:
        """Reads a mapping as flags of the server where there is a reason to."""
        keys = scope.keys[-2:] or (posixpath.basename(self.path),)
        named = any(recipe.named_for_flags(key) for key in keys)
        if not recipe.is_recipe(node, scope.key, named, self.told):
            return False
        partial = any("override" in key for key in scope.keys)
        words = self.recipe_words(node, conditional=partial)
        setting = scope.setting
        for around in scope.around[-2:]:
            for name in self.environments(scope.key):
                extra = self.surroundings.variables(around.get(name), setting.environment)
                setting = replace(setting, environment=(*setting.environment, *extra))
        self.add(words, replace(scope, setting=setting), scope.keys, "recipe", node)
        return True

    def environments(self, role: str) -> tuple[str, ...]:
        return f"{role}_environment", f"{role}_env", f"{role}-environment", f"{role}-env"

    def recipe_words(self, node: Mapping, conditional: bool) -> list[Word]:
        """Key and values as words; alternatives of an override are not several values."""
        words: list[Word] = []
        for key, values in recipe.written_flags(node):
            line, column = self.surroundings.place(key)
            name = key.text if key.text.startswith("-") else f"--{key.text}"
            words.append(Word(name, self.path, line, column, conditional=conditional))
            if conditional and len(values) > 1:
                texts = [value.text if isinstance(value, Scalar) else "{…}" for value in values]
                words.append(Word(" ".join(texts), self.path, line, column, False, conditional))
                continue
            for value in values:
                at = self.surroundings.place(value) if isinstance(value, Scalar) else (line, column)
                text = value.text if isinstance(value, Scalar) else "{…}"
                resolved = isinstance(value, Scalar) and self.surroundings.expanded(text).resolved
                words.append(Word(text, self.path, *at, resolved, conditional))
        return words

    def flags(self, nodes: Sequence[Node], scope: Scope) -> None:
        """Reads texts or lists of flags that stand without a program; several may not all apply."""
        parts: list[Traced] = []
        for node in nodes:
            if isinstance(node, Scalar):
                parts.extend(split(self.traced(node)))
            for item in node.items if isinstance(node, Listing) else ():
                if isinstance(item, Scalar):
                    parts.extend(self.parts(item))
        named = self.names_sglang(scope)
        told = self.told and (named or not scope.setting.pins)
        if recipe.flags_of_server((part.text for part in parts), named, told):
            words = [self.word(part, scope) for part in parts]
            if len(nodes) > 1:
                words = [replace(word, conditional=True) for word in words]
            self.add(words, scope, scope.keys, "recipe")

    def names_sglang(self, scope: Scope) -> bool:
        return any("sglang" in pin.text for pin in scope.setting.pins) or any(
            "sglang" in key.lower() for key in scope.keys[-2:]
        )

    def add(
        self,
        words: Sequence[Word],
        scope: Scope,
        keys: tuple[str, ...],
        form: str,
        node: Mapping | None = None,
    ) -> None:
        """A launch that only its settings tell of; ``command`` says where they stand."""
        if not words:
            return
        first = replace(words[0], text="-m", conditional=False)
        program = [first, replace(first, text="sglang.launch_server")]
        setting = scope.setting
        if not setting.pins:
            setting = replace(setting, pins=tuple(self.nearest_image(scope)))
        launch = launch_of([*program, *words], setting, form)
        if launch is None:
            return
        role = launch.role
        for name in _ROLES:
            if role == "plain" and keys and keys[-1] == name:
                role = "prefill" if name == "prefill" else "decode"
        line = self.file.position(node.start)[0] if node is not None else launch.line
        self.found.append(
            msgspec.structs.replace(
                launch,
                command=".".join(keys) or posixpath.basename(self.path),
                role=role,
                line=min(line, launch.line),
                model=launch.model or self.nearest_model(scope),
            )
        )

    def nearest_image(self, scope: Scope) -> Iterator[Pin]:
        """The image that a recipe names beside its flags (``model: {container: …}``)."""
        for around in reversed(scope.around):
            for _, value in around.merged():
                if isinstance(value, Mapping):
                    image = value.get("image", "container")
                    if isinstance(image, Scalar) and "sglang" in image.text:
                        yield Pin("image", image.text, self.path, *self.surroundings.place(image))
                        return

    def nearest_model(self, scope: Scope) -> str | None:
        """The model that a recipe names beside its flags (``model: {path: …}``)."""
        for around in reversed(scope.around):
            model = around.get("model", "model_path", "model-path", "modelPath", "modelName")
            if isinstance(model, Mapping):
                model = model.get("path", "model_path", "name")
            if (
                isinstance(model, Scalar)
                and model.text
                and self.surroundings.expanded(model.text).resolved
            ):
                return model.text
        return None


def _is_flags(node: Node) -> bool:
    return isinstance(node, Scalar) and recipe.is_flag_text(node.text)


def _joined(node: Listing) -> str:
    """The first words of a list, as one would type them."""
    return " ".join(item.text[:200] for item in node.items[:50] if isinstance(item, Scalar))


def _waits_for_text(words: Sequence[Word]) -> bool:
    """Whether the words so far end in a shell's ``-c``."""
    return bool(words) and re.fullmatch(r"-[a-z]*c", words[-1].text) is not None


def _are_lines(node: Listing) -> bool:
    """Whether a list holds commands, a line each, and not the words of one command."""
    texts = [item.text for item in node.items if isinstance(item, Scalar)]
    return bool(texts) and any(character in texts[0].strip() for character in " \n")
