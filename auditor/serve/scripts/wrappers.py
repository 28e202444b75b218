"""Commands that run another: env, srun, mpirun, containers, shells; what they change around it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from auditor.model import Pin
from auditor.serve.scripts.words import (
    ASSIGNMENT,
    PYTHON,
    SHELLS,
    Script,
    Setting,
    Word,
    base,
    noted,
    program_of,
    with_variable,
)

_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "docker-compose", "podman-compose"})
# Options of `docker run` and `exec` that take no value; all others do.
_DOCKER_SWITCHES = frozenset(
    {
        *("--detach", "--rm", "--init", "--interactive", "--tty", "--privileged", "--read-only"),
        *("--no-healthcheck", "--quiet", "--oom-kill-disable", "--publish-all", "--sig-proxy"),
        *("--disable-content-trust", "--help", "--no-deps", "--service-ports", "--build"),
        *("--use-aliases", "--no-TTY", "--remove-orphans", "--replace", "--rmi"),
    }
)
_SHORT_SWITCHES = frozenset("ditPqT")


def without_wrapper(words: list[Word], name: str, setting: Setting) -> tuple[list[Word], Setting]:
    """Takes one wrapper with its options off; an unknown word is taken for a wrapper, too."""
    if name in _CONTAINERS:
        return _container(words, setting)
    if name == "env":
        return _env(words[1:], setting)
    if name == "kubectl":
        end = next((i for i, word in enumerate(words) if word.text == "--"), len(words))
        return words[end + 1 :], Setting()
    setting = noted(words[0], setting)
    if name == "srun":
        return _srun(words[1:], setting)
    if name in {"mpirun", "mpiexec"}:
        return _mpirun(words[1:], setting)
    return words[1:], setting


def shell_text(words: list[Word]) -> Word | None:
    """The text after ``-c`` of a shell's options (``bash -lc TEXT``)."""
    for index, word in enumerate(words[1:], 1):
        if word.text == "--":
            continue
        if not word.text.startswith(("-", "+")):
            return None
        if not word.text.startswith("--") and "c" in word.text:
            after = words[index + 1 :]
            while after and after[0].text.startswith("-") and " " not in after[0].text:
                after = after[1:]
            return after[0] if after else None
    return None


def hand_on(words: list[Word], name: str, setting: Setting, script: Script) -> None:
    """Hands on what ``eval`` or a shell behind ``ssh`` gets: its words, joined by spaces."""
    rest = words[1:]
    if name == "ssh":
        setting = Setting()
        while rest and rest[0].text.startswith("-"):
            takes = len(rest[0].text) == 2 and rest[0].text[1] in "BbcDEeFIiJLlmOopQRSWw"
            rest = rest[2 if takes else 1 :]
        rest = rest[1:]
    if not rest:
        return
    text = " ".join(word.text for word in rest)
    script(
        replace(
            rest[0],
            text=text,
            resolved=all(word.resolved for word in rest),
            conditional=any(word.conditional for word in rest),
            alternatives=rest[0].alternatives if len(rest) == 1 else (),
        ),
        setting,
    )


def _env(words: list[Word], setting: Setting) -> tuple[list[Word], Setting]:
    while words:
        text = words[0].text
        assignment = ASSIGNMENT.match(text)
        if assignment:
            setting = with_variable(setting, words[0], assignment.group(1), assignment.group(2))
            words = words[1:]
        elif text in {"-i", "-", "--ignore-environment"}:
            setting = replace(setting, environment=())
            words = words[1:]
        elif text in {"-u", "--unset", "-C", "--chdir"} and len(words) > 1:
            name = words[1].text
            if text in {"-u", "--unset"}:
                setting = _without(setting, name)
            else:
                setting = replace(setting, folder=name if words[1].resolved else "")
            words = words[2:]
        elif text.startswith("-"):
            words = words[1:]
        else:
            break
    return words, setting


def _without(setting: Setting, name: str) -> Setting:
    return replace(
        setting,
        environment=tuple(variable for variable in setting.environment if variable.name != name),
    )


def _srun(words: list[Word], setting: Setting) -> tuple[list[Word], Setting]:
    """Reads the options of slurm's `srun` (and pyxis') that change what the command meets."""
    rest = words
    while rest and rest[0].text.startswith("-"):
        name, equals, value = rest[0].text.partition("=")
        word = rest[0]
        rest = rest[1:]
        if not equals and rest and not rest[0].text.startswith("-") and _takes_value(name):
            word, value = rest[0], rest[0].text
            rest = rest[1:]
        if name == "--container-image":
            setting = replace(
                setting,
                pins=(*setting.pins, Pin("image", value, word.path, word.line, word.column)),
            )
        elif name == "--container-mounts" and word.resolved:
            setting = replace(setting, mounts=(*setting.mounts, *_mounts(value.split(","))))
        elif name in {"--container-workdir", "--chdir", "-D"} and word.resolved:
            setting = replace(setting, folder=value)
        elif name == "--export":
            for item in value.split(","):
                assignment = ASSIGNMENT.match(item)
                if assignment:
                    setting = with_variable(setting, word, assignment.group(1), assignment.group(2))
    return rest, setting


def _takes_value(option: str) -> bool:
    switches = {
        "--exclusive", "--overlap", "--unbuffered", "--label", "--no-kill", "--verbose", "--quiet",
        "--container-writable", "--container-remap-root", "--no-container-mount-home",
        "--container-mount-home", "--no-container-entrypoint", "--container-entrypoint",
        "--kill-on-bad-exit", "--pty", "--oversubscribe", "--multi-prog", "--disable-status",
        "--container-readonly", "--no-container-remap-root", "--immediate", "--test-only",
    }  # fmt: skip
    if option.startswith("--"):
        return option not in switches
    return len(option) == 2 and option[1] not in "lukvQsXOEKIZHV"


def _mpirun(words: list[Word], setting: Setting) -> tuple[list[Word], Setting]:
    """Reads ``-x NAME=VALUE``."""
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        if rest[0].text in {"-x", "--x", "-genv", "-env"} and len(rest) > 1:
            assignment = ASSIGNMENT.match(rest[1].text)
            if assignment:
                setting = with_variable(setting, rest[1], assignment.group(1), assignment.group(2))
            rest = rest[2:]
        else:
            rest = rest[1:]
            while rest and not rest[0].text.startswith("-") and program_of(rest) is None:
                if PYTHON.match(base(rest[0].text)) or base(rest[0].text) in SHELLS:
                    return rest, setting
                rest = rest[1:]
    return rest, setting


def _container(words: list[Word], outer: Setting) -> tuple[list[Word], Setting]:
    """Takes ``docker run …  IMAGE`` or ``docker exec … NAME`` off.

    A container has the variables that it is given and not those of the shell around it.
    """
    verb = 1
    while verb < len(words) and words[verb].text not in {"run", "exec", "create"}:
        verb += 1
    rest = words[verb + 1 :]
    if verb == len(words):
        return [], outer
    setting = Setting(pins=outer.pins)
    entrypoint: list[Word] = []
    while rest and rest[0].text.startswith("-"):
        word = rest[0]
        name, equals, value = word.text.partition("=")
        rest = rest[1:]
        short = not name.startswith("--")
        if short and not equals and len(name) > 2 and name[1] not in _SHORT_SWITCHES:
            name, value, equals = name[:2], name[2:], "attached"
        if short and not equals and set(name[1:]) <= _SHORT_SWITCHES:
            continue
        if name in _DOCKER_SWITCHES or word.text == "--":
            continue
        if not equals:
            if not rest:
                break
            # `-it -e`: the last letter of a bundle takes the value.
            name = "-" + name[-1] if short else name
            word, value = rest[0], rest[0].text
            rest = rest[1:]
        if name in {"-e", "--env"}:
            setting = _given(setting, outer, word, value)
        elif name in {"-v", "--volume"} and word.resolved:
            setting = replace(setting, mounts=(*setting.mounts, *_mounts([value])))
        elif name == "--mount" and word.resolved:
            setting = replace(setting, mounts=(*setting.mounts, *_long_mount(value)))
        elif name in {"-w", "--workdir"}:
            setting = replace(setting, folder=value if word.resolved else "")
        elif name == "--entrypoint" and value:
            entrypoint = [replace(word, text=value)]
    if not rest:
        return [], setting
    image = rest[0]
    if words[verb].text != "exec" and not words[0].text.endswith("compose"):
        pin = Pin("image", image.text, image.path, image.line, image.column)
        setting = replace(setting, pins=(*setting.pins, pin))
    return [*entrypoint, *rest[1:]], setting


def _given(setting: Setting, outer: Setting, word: Word, value: str) -> Setting:
    assignment = ASSIGNMENT.match(value)
    if assignment:
        return with_variable(setting, word, assignment.group(1), assignment.group(2))
    passed = tuple(variable for variable in outer.environment if variable.name == value)
    return replace(setting, environment=(*setting.environment, *passed))


def _mounts(items: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Reads ``outside:inside[:options]``; a named volume has no path outside."""
    for item in items:
        parts = item.split(":")
        if len(parts) >= 2 and parts[0] and parts[1].startswith("/"):
            yield parts[1], parts[0]


def _long_mount(text: str) -> Iterable[tuple[str, str]]:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    outside = fields.get("source", fields.get("src", ""))
    inside = fields.get("target", fields.get("dst", fields.get("destination", "")))
    if outside and inside:
        yield inside, outside
