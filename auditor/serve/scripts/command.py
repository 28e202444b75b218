"""Makes a launch of one command's words: wrappers off, the program known, its flags in place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from auditor.model import Argument, Launch, Pin, Variable


@dataclass(frozen=True)
class Word:
    """One word of a command after expansion, and where it stands as written.

    A word with ``resolved`` False keeps the text of the script (``$MODEL``). ``alternatives`` are
    all texts that the word may have, where branches decide between known ones (``text`` is the
    first); ``conditional`` says that only some runs have the word at all.
    """

    text: str
    path: str
    line: int
    column: int = 1
    resolved: bool = True
    conditional: bool = False
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """What surrounds a command: its environment, folder (empty: not known), image and mounts."""

    environment: tuple[Variable, ...] = ()
    folder: str = ""
    pins: tuple[Pin, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()


Script = Callable[[Word, Setting], None]
"""Takes the text that a command hands to a shell (``bash -c TEXT``), and what surrounds it."""

Program = Literal["server", "diffusion", "router", "foreign"]

_SERVER_MODULES = frozenset({"sglang.launch_server"})
_ROUTER_MODULES = frozenset(
    {
        "sglang_router",
        "sglang_router.launch_router",
        "sglang_router.launch_server",
        "smg",
        "smg.launch_router",
        "smg.launch_server",
        "sglang.srt.disaggregation.mini_lb",
        "sglang.srt.disaggregation.launch_lb",
    }
)
_DIFFUSION_MODULES = frozenset({"sglang.multimodal_gen.runtime.launch_server"})
_ROUTERS = frozenset({"sglang-router", "sgl-router", "sgl-model-gateway", "smg", "amg"})
_ROUTING = frozenset(
    {"--worker-urls", "--pd-disaggregation", "--prefill", "--decode", "--service-discovery"}
)
# `sglang serve` chooses its back-end by `--model-type`, or by the model; these flags exist in the
# diffusion back-end only (multimodal_gen/runtime/server_args.py).
_DIFFUSION_FLAGS = frozenset(
    {"--num-gpus", "--ulysses-degree", "--ring-degree", "--pipeline-class-name", "--vae-path"}
)
# A command that starts with one of these, or with a wrapper before it, shows its words only.
_PRINTERS = frozenset(
    {
        *("echo", "printf", "print", "cat", "log", "warn", "info", "error", "die", "fatal", "tee"),
        *("grep", "egrep", "rg", "awk", "sed", "ps", "pgrep", "pkill", "pidof", "kill", "killall"),
        *("test", "[", "[[", ":", "true", "false", "alias", "man", "which", "type"),
    }
)
_PLAIN_WRAPPERS = frozenset({"exec", "nohup", "setsid", "time", "sudo", "command", "env", "srun"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
# These run a text that is one of their words.
_TERMINALS = frozenset({"tmux", "screen", "su", "script"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "docker-compose", "podman-compose"})
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*$")
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*$")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)$", re.DOTALL)
_REQUIREMENT = re.compile(r"\bsglang(?:\[[\w,.-]+\])?\s*(?:===?|~=|>=|<=|@)\s*[^\s;,'\"]+")
# An unresolved expansion of such a name stands for any number of words, not for one value.
_MANY = re.compile(
    r"\$\{?(?:[@*]|\w+\[[@*]\]|\w*(?:ARGS?|OPTS?|OPTIONS?|FLAGS?|EXTRAS?|PARAMS?|CMD|COMMAND)\b)",
    re.IGNORECASE,
)
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


def launch_of(
    words: Sequence[Word],
    setting: Setting,
    form: str,
    script: Script | None = None,
) -> Launch | None:
    """Returns the launch that a command is, None where it starts no server or router.

    ``words`` are those of one simple command without redirections; variables written before it
    belong into ``setting``. Where the command hands a text to a shell, ``script`` is called with
    it and None comes back: that text is a script of its own.
    """
    rest = list(words)
    before: Word | None = None
    head = True
    # Each wrapper takes at least one word off.
    while rest:
        name = _base(rest[0].text)
        if head and name in _PRINTERS:
            return None
        if name in _SHELLS:
            text = _shell_text(rest)
            if text is not None and script is not None:
                script(text, setting)
            return None
        if name in {"ssh", "eval"} and script is not None:
            _hand(rest, name, setting, script)
            return None
        if head and name in _TERMINALS and script is not None:
            for word in rest[1:]:
                if " " in word.text.strip():
                    script(word, setting)
        program = _program(rest)
        if program is not None:
            called = before is not None and _PYTHON.match(_base(before.text))
            where = before if before is not None and called else rest[0]
            return _launch(*program, where, rest, setting, form)
        before = rest[0]
        assignment = _ASSIGNMENT.match(before.text)
        if head and assignment:
            setting = _with(setting, before, *assignment.groups())
            rest = rest[1:]
            continue
        head = head and name in _PLAIN_WRAPPERS
        rest, setting = _without_wrapper(rest, name, setting)
    return None


def _without_wrapper(words: list[Word], name: str, setting: Setting) -> tuple[list[Word], Setting]:
    """Takes one wrapper with its options off; an unknown word is taken for a wrapper, too."""
    if name in _CONTAINERS:
        return _container(words, setting)
    if name == "env":
        return _env(words[1:], setting)
    if name == "kubectl":
        end = next((i for i, word in enumerate(words) if word.text == "--"), len(words))
        return words[end + 1 :], Setting()
    setting = _noted(words[0], setting)
    if name == "srun":
        return _srun(words[1:], setting)
    if name in {"mpirun", "mpiexec"}:
        return _mpirun(words[1:], setting)
    return words[1:], setting


def _program(words: list[Word]) -> tuple[Program, str, int] | None:
    """Says which program the words start, how it is called, and where its arguments begin."""
    first = words[0].text
    name = _base(first)
    following = words[1].text if len(words) > 1 else ""
    found: tuple[Program, str, int] | None = None
    if first == "-m" or (first.startswith("-m") and "." in first):
        module = following if first == "-m" else first[2:]
        found = _module(module, words, 2 if first == "-m" else 1)
    elif name == "sglang" and following == "serve":
        found = ("server", "sglang serve", 2)
    elif name == "sglang-diffusion" and following == "serve":
        found = ("diffusion", "sglang-diffusion serve", 2)
    elif name in _ROUTERS and not first.startswith("-"):
        # `smg` is the name of other tools as well: without a router's words it is not this one.
        if following == "launch" or any(word.text.split("=")[0] in _ROUTING for word in words):
            found = ("router", name, 2 if following == "launch" else 1)
    elif name == "launch_server.py":
        if _is_package_file(first) or _names_model(words):
            found = ("server", first, 1)
    elif name == "launch_router.py":
        found = ("router", first, 1)
    return found


def _module(module: str, words: list[Word], start: int) -> tuple[Program, str, int] | None:
    if module in _SERVER_MODULES:
        return "server", f"python -m {module}", start
    if module in _ROUTER_MODULES:
        if len(words) > start and words[start].text == "launch":
            start += 1
        return "router", f"python -m {module}", start
    if module in {"sglang", "sglang.cli", "sglang.cli.main"}:
        if len(words) > start and words[start].text == "serve":
            return "server", f"python -m {module} serve", start + 1
        return None
    if module in _DIFFUSION_MODULES:
        return "diffusion", f"python -m {module}", start
    if module == "dynamo.sglang" or module.startswith("dynamo.sglang."):
        return "foreign", f"python -m {module}", start
    return None


def _is_package_file(path: str) -> bool:
    return posixpath.basename(posixpath.dirname(path)) == "sglang"


def _names_model(words: list[Word]) -> bool:
    return any(word.text.split("=")[0] in {"--model-path", "--model"} for word in words)


def _launch(
    program: Program,
    command: str,
    start: int,
    where: Word,
    words: list[Word],
    setting: Setting,
    form: str,
) -> Launch | None:
    rest = words[start:]
    if any(word.text in {"--help", "-h", "--version"} for word in rest):
        return None
    if command.endswith(" serve") and program == "server":
        rest = _positional_as_flag(rest)
    arguments = tuple(_arguments(rest))
    if program == "server" and command.endswith(" serve") and _for_diffusion(arguments):
        program = "diffusion"
    return Launch(
        path=where.path,
        line=where.line,
        program=program,
        command=command,
        role=_role(arguments),
        model=_model(arguments),
        arguments=arguments,
        environment=_effective(setting.environment),
        unresolved=sum(not word.resolved for word in rest),
        form=form,
        folder=setting.folder or posixpath.dirname(where.path),
        pins=tuple(dict.fromkeys(setting.pins)),
        mounts=setting.mounts,
    )


def _positional_as_flag(words: list[Word]) -> list[Word]:
    """Writes a flag before the model path, as `sglang serve` does (cli/serve.py, 0.5.18)."""
    first = 0
    while first < len(words) and words[first].text.split("=")[0] == "--model-type":
        first += 1 if "=" in words[first].text else 2
    if first < len(words) and not words[first].text.startswith("-"):
        word = words[first]
        if not (not word.resolved and _MANY.match(word.text)):
            flag = replace(word, text="--model-path", resolved=True, alternatives=())
            return [*words[:first], flag, *words[first:]]
    return words


def _arguments(words: list[Word]) -> Iterable[Argument]:
    """Pairs each flag with all words up to the next one, as argparse would let it have them."""
    flag: Word | None = None
    values: list[Word] = []
    for word in words:
        if _is_flag(word):
            if flag is not None:
                yield from _argument(flag, values)
            flag, values = word, []
        elif _is_many(word) or (not word.resolved and word.text.startswith("-")):
            # Any number of words, flags among them: they end the flag before.
            if flag is not None:
                yield from _argument(flag, values)
            flag, values = None, []
        elif flag is not None and ("=" not in flag.text or values):
            if not values or word.resolved:
                values.append(word)
    if flag is not None:
        yield from _argument(flag, values)


def _is_flag(word: Word) -> bool:
    return _FLAG.match(word.text.split("=", 1)[0]) is not None


def _is_many(word: Word) -> bool:
    return not word.resolved and _MANY.match(word.text) is not None


def _argument(flag: Word, values: list[Word]) -> Iterable[Argument]:
    name, equals, own = flag.text.partition("=")
    resolved = flag.resolved and all(word.resolved for word in values)
    conditional = flag.conditional or any(word.conditional for word in values)
    texts: list[str | None]
    if equals:
        spellings = flag.alternatives or (flag.text,)
        pairs = [(text.partition("=")[0], text.partition("=")[2]) for text in spellings]
        if any(other != name for other, _ in pairs):
            pairs = [(name, own)]
        texts = [value for _, value in pairs]
    elif not values:
        texts = [None]
    else:
        texts = [""]
        for word in values:
            options = word.alternatives or (word.text,)
            # Alternatives of several words do not multiply: branches that set two of them are
            # not independent, and their number would explode.
            if len(options) > 1 and len(texts) > 1:
                options = options[:1]
            texts = [f"{text} {option}" if text else option for text in texts for option in options]
    for text in dict.fromkeys(texts):
        yield Argument(
            flag=name,
            value=text,
            path=flag.path,
            line=flag.line,
            column=flag.column,
            resolved=resolved,
            conditional=conditional or len(texts) > 1,
            joined=bool(equals),
        )


def _for_diffusion(arguments: tuple[Argument, ...]) -> bool:
    for argument in arguments:
        if argument.flag in _DIFFUSION_FLAGS:
            return True
        if argument.flag == "--model-type" and argument.value == "diffusion":
            return True
        if argument.flag == "--backend" and argument.value in {"diffusers", "diffusion", "sglang"}:
            return True
    return False


def _role(arguments: tuple[Argument, ...]) -> Literal["plain", "prefill", "decode"]:
    values = {
        argument.value
        for argument in arguments
        if argument.flag.replace("_", "-") == "--disaggregation-mode" and argument.resolved
    }
    if values == {"prefill"}:
        return "prefill"
    if values == {"decode"}:
        return "decode"
    return "plain"


def _model(arguments: tuple[Argument, ...]) -> str | None:
    named = [
        argument
        for argument in arguments
        if argument.flag.replace("_", "-") in {"--model-path", "--model"}
    ]
    # argparse keeps the last; where branches decide there is no one model.
    if not named or not named[-1].resolved:
        return None
    if named[-1].conditional and len({argument.value for argument in named}) > 1:
        return None
    return named[-1].value


def _effective(environment: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Leaves out what a later setting of the same name replaces in every run."""
    kept: list[Variable] = []
    replaced: set[str] = set()
    for variable in reversed(environment):
        if variable.name not in replaced:
            kept.append(variable)
        if not variable.conditional:
            replaced.add(variable.name)
    return tuple(reversed(kept))


def _base(text: str) -> str:
    return text.rstrip("/").rsplit("/", 1)[-1]


def _with(setting: Setting, word: Word, name: str, value: str) -> Setting:
    variable = Variable(
        name, value, word.path, word.line, word.column, word.resolved, word.conditional
    )
    return replace(setting, environment=(*setting.environment, variable))


def _noted(word: Word, setting: Setting) -> Setting:
    """Keeps a requirement that a wrapper names (``uv run --with sglang==0.5.9``)."""
    found = requirement_of(word)
    return replace(setting, pins=(*setting.pins, found)) if found else setting


def requirement_of(word: Word) -> Pin | None:
    """The version of sglang that a word asks an installer for, None where it asks for none."""
    match = _REQUIREMENT.search(word.text)
    if match is None:
        return None
    return Pin("requirement", match.group(), word.path, word.line, word.column)


def _shell_text(words: list[Word]) -> Word | None:
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


def _hand(words: list[Word], name: str, setting: Setting, script: Script) -> None:
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
        assignment = _ASSIGNMENT.match(text)
        if assignment:
            setting = _with(setting, words[0], assignment.group(1), assignment.group(2))
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
                assignment = _ASSIGNMENT.match(item)
                if assignment:
                    setting = _with(setting, word, assignment.group(1), assignment.group(2))
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
            assignment = _ASSIGNMENT.match(rest[1].text)
            if assignment:
                setting = _with(setting, rest[1], assignment.group(1), assignment.group(2))
            rest = rest[2:]
        else:
            rest = rest[1:]
            while rest and not rest[0].text.startswith("-") and _program(rest) is None:
                if _PYTHON.match(_base(rest[0].text)) or _base(rest[0].text) in _SHELLS:
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
    assignment = _ASSIGNMENT.match(value)
    if assignment:
        return _with(setting, word, assignment.group(1), assignment.group(2))
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
