"""Idioms of serve scripts that make values otherwise: functions, quoting, numbers, folders."""

from __future__ import annotations

from tests.serve.scripts.draft import JSON_VALUES, Draft, Full, Value, escaped
from tests.serve.scripts.idioms import VALUES, value

__all__ = ["VALUES"]


# Functions that print.


@value
def function_prints(d: Draft) -> None:
    flag, values = d.setting()
    name, key = d.name("pick"), d.subject(("a",))
    form = d.rng.randrange(3)
    d.emit(f"{d.pick('', 'function ')}{name}() {{")
    with d.block():
        if form == 0:
            d.emit(f"if {d.test(key, 'a')}; then echo {values[0]}; else echo {values[1]}; fi")
        elif form == 1:
            d.emit(f"if {d.test(key, 'a')}; then", f"  echo {values[0]}", "  return", "fi")
            d.emit(f"echo {values[1]}")
        else:
            d.emit(f"{d.test(key, 'a')} && {{ echo {values[0]}; return 0; }}")
            d.emit(f"printf '%s\\n' {values[1]}")
    d.emit("}")
    _result(d, flag, f"$({name})")


@value
def function_of_argument(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name("for_size")
    d.emit(f"{name}() {{")
    with d.block():
        if d.chance(0.5):
            own = d.name("size")
            d.emit(f"local {own}=$1" if d.chance(0.5) else f'local {own}="${{1:-a}}"')
            subject = f"${own}"
        else:
            subject = '"$1"'
        d.emit(f"case {subject} in", f"  a) echo {values[0]} ;;", f"  b) echo {values[1]} ;;")
        if d.chance(0.5):
            d.emit(f"  *) echo {values[-1]} ;;")
        d.emit("esac")
    d.emit("}")
    if d.chance(0.5):
        _result(d, flag, f"$({name} {d.pick('a', 'b')})")
    else:
        subject = d.subject(("a", "b"))
        _result(d, flag, f'$({name} "${subject}")')


def _result(d: Draft, flag: str, source: str) -> None:
    if d.chance(0.5):
        own = d.name()
        d.emit(f"{own}={source}" if d.chance(0.5) else f'{own}="{source}"')
        d.add(flag, d.of(own))
    else:
        d.add(flag, d.expansion(source))


@value
def choice_in_substitution(d: Draft) -> None:
    flag, values = d.setting()
    key = d.subject(("yes",))
    _result(d, flag, f"$({d.test(key, 'yes')} && echo {values[0]} || echo {values[1]})")


@value
def local_value(d: Draft) -> None:
    """A function whose local variable hides one of the script."""
    flag, values = d.setting()
    other, more = d.setting()
    name, shared = d.name("prepare"), d.name()
    result = d.name()
    d.emit(f"{shared}={values[0]}", f"{name}() {{")
    with d.block():
        d.emit(f"local {shared}={more[0]}", f"{result}=${shared}")
    d.emit("}", name)
    d.add(flag, d.of(shared))
    d.add(other, d.of(result))


@value
def global_of_function(d: Draft) -> None:
    flag, values = d.setting()
    name, result = d.name("setup"), d.name()
    d.emit(f"{name}() {{")
    with d.block():
        d.emit(f'{result}="$1"', "shift", f"{result}=${result}$1" if d.chance(0.3) else ":")
    d.emit("}", f"{name} {values[0]} {d.pick('x', '')}".rstrip())
    d.add(flag, d.of(result))


# Texts that are run, splitting, braces, quoting, numbers.


@value
def evaluated(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    d.emit(
        d.pick(
            f'eval "{name}={values[0]}"',
            f"eval '{name}={values[0]}'",
            f"eval {name}={values[0]}",
        )
    )
    d.add(flag, d.of(name))


@value
def evaluated_name(d: Draft) -> None:
    flag, values = d.setting()
    name, which = d.name("VALUE"), d.name("which")
    d.emit(f"{which}={name}", f"{name}={values[0]}")
    if d.chance(0.5):
        own = d.name()
        d.emit(f'eval "{own}=\\$${which}"')
        d.add(flag, d.of(own))
    else:
        d.add(flag, d.expansion(f"${{!{which}}}"))


@value
def inner_shell(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    d.emit(f"export {name}={values[0]}")
    _result(d, flag, d.pick(f"$(bash -c 'echo ${name}')", f'$(bash -c "echo {values[0]}")'))


@value
def split_text(d: Draft) -> None:
    flag, values = d.setting()
    other, more = d.setting()
    name = d.name()
    d.emit(f'{name}="{values[0]} {other} {more[0]}"')
    d.splice(f"{flag} ${name}", f"{flag} ${name}")


@value
def braces(d: Draft) -> None:
    flag, values = d.setting()
    text = d.pick(f"{{{values[0]},{values[1]}}}", f"x-{{a,{values[0]}}}", f"{values[0]}{{,-b}}")
    d.splice(f"{flag} {text}", f"{flag} {text}")


@value
def json_apart(d: Draft) -> None:
    """Braces and quotes that bash takes away, for nothing quotes them."""
    flag = d.json()
    d.splice(flag + ' {"a":1,"b":2}', flag + r" {\"a\":1,\"b\":2}")


@value
def json_quoted(d: Draft) -> None:
    flag, text = d.json(), d.pick(*JSON_VALUES)
    if d.chance(0.4):
        name = d.name("OVERRIDE")
        quoted = d.pick(f"'{text}'", '"' + escaped(text) + '"')
        d.emit(f"{name}={quoted}")
        d.add(flag, d.of(name))
    else:
        d.add(flag, d.literal(text))


@value
def quoting(d: Draft) -> None:
    flag, values = d.setting()
    text = values[0]
    half = len(text) // 2
    code = f"\\x{ord(text[0]):02x}"
    word = d.pick(
        f"$'{code}{text[1:]}'",
        f"$'\\{ord(text[0]):o}'{text[1:]}",
        f"'{text[:half]}'\"{text[half:]}\"",
        f"\"{text[:half]}\"$'{text[half:]}'",
        f"{text[:half]}\\{text[half:]}",
        f"''{text}",
        f'{text}""',
    )
    if d.chance(0.5):
        name = d.name()
        d.emit(f"{name}={word}")
        d.add(flag, d.of(name))
    else:
        d.add(flag, Value(word, text))


@value
def arithmetic(d: Draft) -> None:
    flag, _ = d.setting(2, "^[1248]( [1248])*$")
    name = d.name("n")
    d.emit(f"{name}={d.pick('1', '2', '4')}")
    step = d.rng.randrange(3)
    if step == 0:
        d.emit(d.pick(f"(({name}++))", f"(( {name} += 1 ))", f"(({name}*=2))"))
    elif step == 1:
        d.emit(d.pick(f"let {name}+=1", f"{name}=$(({name} + 1))", f"{name}=$(expr ${name} + 1)"))
    source = d.pick(f"$(({name} * 2))", f"$(( ${name} / 1 ))", f"${name}", f"$((({name}+2)%8+1))")
    d.add(flag, d.expansion(source))


@value
def exported(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    d.emit(
        *d.rng.choice(
            [
                [f"export {name}={values[0]}"],
                [f"{name}={values[0]}", f"export {name}"],
                [f"declare -x {name}={values[0]}"],
                [f"readonly {name}={values[0]}"],
            ]
        )
    )
    d.add(flag, d.of(name))


# Folders.


@value
def own_folder(d: Draft) -> None:
    if not d.state.folder_known:
        raise Full
    flag, name = d.model(), d.name("HERE")
    source = d.pick(
        '$(dirname "$0")',
        "$(dirname $0)",
        '$(cd "$(dirname "$0")" && pwd)',
        '$(cd "$(dirname "$0")"; pwd -P)',
        '$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)',
        '$(dirname "${BASH_SOURCE[0]}")',
        '$(dirname "$(readlink -f "$0")")',
        '$(dirname -- "$(realpath "$0")")',
        "${BASH_SOURCE%/*}",
        "${0%/*}",
    )
    if d.chance(0.7):
        d.emit(f"{name}={source}" if d.chance(0.4) else f'{name}="{source}"')
        source = f"${name}"
    d.add(flag, d.expansion(f"{source}/{d.pick('weights', '../weights', 'a/b')}"))


@value
def changed_folder(d: Draft) -> None:
    """A path of the script's folder after the script went there."""
    if d.depth or not d.state.folder_known:
        raise Full
    d.state.folder_known = False
    flag = d.model()
    d.emit(d.pick('cd "$(dirname "$0")"', 'cd "$(dirname "$0")" || exit 1', "cd ${0%/*}/."))
    d.add(flag, d.expansion(d.pick("./weights", "$PWD/weights", "$(pwd)/weights", "../w")))
