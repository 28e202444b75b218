"""Makes a launch of one command's words: wrappers off, the program known, its flags in place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from auditor.model import Argument, Launch, Passed, Variable
from auditor.serve.scripts.words import (
    ASSIGNMENT,
    PYTHON,
    SHELLS,
    Program,
    Script,
    Setting,
    Word,
    base,
    program_of,
    with_variable,
)
from auditor.serve.scripts.wrappers import hand_on, shell_text, without_wrapper

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
# These run a text that is one of their words.
_TERMINALS = frozenset({"tmux", "screen", "su", "script"})
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*$")
# An unresolved expansion of such a name stands for any number of words, not for one value.
_MANY = re.compile(
    r"\$\{?(?:[@*]|\w+\[[@*]\]|\w*(?:ARGS?|OPTS?|OPTIONS?|FLAGS?|EXTRAS?|PARAMS?|CMD|COMMAND)\b)",
    re.IGNORECASE,
)


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
        name = base(rest[0].text)
        if head and name in _PRINTERS:
            return None
        if name in SHELLS:
            text = shell_text(rest)
            if text is not None and script is not None:
                script(text, setting)
            return None
        if name in {"ssh", "eval"} and script is not None:
            hand_on(rest, name, setting, script)
            return None
        if head and name in _TERMINALS and script is not None:
            for word in rest[1:]:
                if " " in word.text.strip():
                    script(word, setting)
        program = program_of(rest)
        if program is not None:
            called = before is not None and PYTHON.match(base(before.text))
            where = before if before is not None and called else rest[0]
            return _launch(*program, where, rest, setting, form)
        before = rest[0]
        assignment = ASSIGNMENT.match(before.text)
        if head and assignment:
            setting = with_variable(setting, before, *assignment.groups())
            rest = rest[1:]
            continue
        head = head and name in _PLAIN_WRAPPERS
        rest, setting = without_wrapper(rest, name, setting)
    return None


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
        role=role_of(arguments),
        model=model_of(arguments),
        arguments=arguments,
        environment=_effective(setting.environment),
        unresolved=sum(not word.resolved for word in rest),
        form=form,
        folder=setting.folder or posixpath.dirname(where.path),
        pins=tuple(dict.fromkeys(setting.pins)),
        mounts=setting.mounts,
        words=tuple(map(_passed, rest)),
    )


def _passed(word: Word) -> Passed:
    return Passed(
        word.text,
        word.path,
        word.line,
        word.column,
        word.resolved,
        # Which of the alternatives it is, branches decide.
        word.conditional or len(word.alternatives) > 1,
        _is_many(word),
    )


def _positional_as_flag(words: list[Word]) -> list[Word]:
    """Writes a flag before the model path, as `sglang serve` does (cli/serve.py, 0.5.18)."""
    first = 0
    while first < len(words) and words[first].text.split("=")[0] == "--model-type":
        first += 1 if "=" in words[first].text else 2
    if first < len(words) and not words[first].text.startswith("-"):
        word = words[first]
        if not _is_many(word):
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
    if word.resolved or word.quoted or word.text == "$OPTARG":
        return False
    return _MANY.match(word.text) is not None


def _argument(flag: Word, values: list[Word]) -> Iterable[Argument]:
    name, equals, own = flag.text.partition("=")
    resolved = flag.resolved and all(word.resolved for word in values)
    conditional = flag.conditional or any(word.conditional for word in values)
    sure = all(len(word.alternatives) < 2 for word in values)
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
            outside=not resolved and any(word.outside for word in (flag, *values)),
            words=tuple(word.text for word in values) if sure and len(values) > 1 else (),
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


def role_of(arguments: tuple[Argument, ...]) -> Literal["plain", "prefill", "decode"]:
    """Which side of a pair a server is."""
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


def model_of(arguments: tuple[Argument, ...]) -> str | None:
    """The model path, as far as it is one and known."""
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
    # Words behind it are no part of it.
    return named[-1].words[0] if named[-1].words else named[-1].value


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
