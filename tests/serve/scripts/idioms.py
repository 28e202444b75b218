"""Idioms of serve scripts that make values of variables: defaults, expansions, arrays, reads."""

from __future__ import annotations

from collections.abc import Callable

from tests.serve.scripts.draft import Draft

Idiom = Callable[[Draft], None]
VALUES: dict[str, Idiom] = {}


def value(write: Idiom) -> Idiom:
    VALUES[write.__name__] = write
    return write


def _other(values: list[str]) -> str:
    """A value for the caller to give."""
    return values[1] if len(values) > 1 else values[0]


# Variables that may be unset.


@value
def unset_variable(d: Draft) -> None:
    flag, values = d.setting()
    d.add(flag, d.of(d.variable(values[0])))


@value
def given_if_set(d: Draft) -> None:
    flag, values = d.setting()
    name = d.variable(values[0])
    sign = d.pick(":+", ":+", "+")
    form = d.pick(
        f"${{{name}{sign}{flag} ${name}}}",
        f"${{{name}{sign}{flag}=${name}}}",
        f'${{{name}{sign}{flag} "${name}"}}',
    )
    # A quote within the braces is a quote only where the braces are not quoted themselves.
    d.splice(form, form.replace('"', ""))


@value
def switch_if_set(d: Draft) -> None:
    flag = d.switch()
    name = d.variable("1")
    d.splice(f"${{{name}:+{flag}}}", f"${{{name}:+{flag}}}")


@value
def default(d: Draft) -> None:
    flag, values = d.setting()
    d.state.soft.add(flag)
    name = d.variable(_other(values))
    sign = d.pick(":-", ":-", "-")
    if d.chance(0.5):
        d.add(flag, d.expansion(f"${{{name}{sign}{values[0]}}}"))
        return
    own = d.name()
    text = d.pick(f"${{{name}{sign}{values[0]}}}", f'"${{{name}{sign}{values[0]}}}"')
    d.emit(f"{own}={text}")
    d.add(flag, d.of(own))


@value
def default_of_default(d: Draft) -> None:
    flag, values = d.setting()
    d.state.soft.add(flag)
    first, second = d.variable(values[1]), d.variable(values[-1])
    d.add(flag, d.expansion(f"${{{first}:-${{{second}:-{values[0]}}}}}"))


@value
def assigned_default(d: Draft) -> None:
    flag, values = d.setting()
    d.state.soft.add(flag)
    name = d.variable(_other(values))
    sign = d.pick(":=", "=")
    d.emit(d.pick(f': "${{{name}{sign}{values[0]}}}"', f": ${{{name}{sign}{values[0]}}}"))
    d.add(flag, d.of(name))


@value
def default_by_test(d: Draft) -> None:
    flag, values = d.setting()
    d.state.soft.add(flag)
    name = d.variable(_other(values))
    d.emit(
        d.pick(
            f'[ -z "${name}" ] && {name}={values[0]}',
            f'[ -n "${name}" ] || {name}={values[0]}',
            f'if [ -z "${{{name}:-}}" ]; then {name}={values[0]}; fi',
        )
    )
    d.add(flag, d.of(name))


# What is cut out of a variable.


@value
def without_prefix(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    sign, text, pattern = d.rng.choice(
        [
            ("#", f"v-{values[0]}", "v-"),
            ("#", f"a/{values[0]}", "*/"),
            ("##", f"a/b/{values[0]}", "*/"),
            ("#", f"x:y:{values[0]}", "?:y:"),
        ]
    )
    d.emit(f"{name}={d.quoted(text)}")
    d.add(flag, d.expansion(f"${{{name}{sign}{pattern}}}"))


@value
def without_suffix(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    sign, text, pattern = d.rng.choice(
        [
            ("%", f"{values[0]}-gpu", "-gpu"),
            ("%", f"{values[0]}@b", "@*"),
            ("%%", f"{values[0]}@b@c", "@*"),
            ("%", f"{values[0]}/x", "/?"),
        ]
    )
    d.emit(f"{name}={d.quoted(text)}")
    d.add(flag, d.expansion(f"${{{name}{sign}{pattern}}}"))


@value
def replaced(d: Draft) -> None:
    flag, values = d.setting()
    name, wanted = d.name(), values[0]
    first = wanted[0]
    sign, text, pattern, new = d.rng.choice(
        [
            ("/", f"Z{wanted[1:]}", "Z", first),
            ("//", wanted.replace(first, "Z"), "Z", first),
            ("/", f"{wanted}zz", "zz", ""),
            ("/#", f"q!{wanted}", "q!", ""),
        ]
    )
    d.emit(f"{name}={d.quoted(text)}")
    d.add(flag, d.expansion(f"${{{name}{sign}{pattern}/{new}}}"))


@value
def letter_case(d: Draft) -> None:
    flag, values = d.setting(2, "[a-z]{3}")
    name, wanted = d.name(), values[0]
    sign, text = d.rng.choice([(",,", wanted.upper()), (",,", wanted.title()), ("^^", wanted)])
    if sign == ",," and d.chance(0.4):
        name = d.variable(text)
    else:
        d.emit(f"{name}={text}")
    d.add(flag, d.expansion(f"${{{name}{sign}}}"))


@value
def substring(d: Draft) -> None:
    flag, values = d.setting()
    name, wanted = d.name(), values[0]
    text, cut = d.rng.choice(
        [
            (f"xy{wanted}", ":2"),
            (f"xy{wanted}tail", f":2:{len(wanted)}"),
            (f"{wanted}gb", f":0:{len(wanted)}"),
            (f"ab-{wanted}", f": -{len(wanted)}"),
        ]
    )
    d.emit(f"{name}={d.quoted(text)}")
    d.add(flag, d.expansion(f"${{{name}{cut}}}"))


@value
def length(d: Draft) -> None:
    flag, _ = d.setting(2, "^[1248]( [1248])*$")
    name = d.name()
    if d.chance(0.5):
        d.emit(f"{name}=({' '.join(map(str, range(d.rng.choice((1, 2, 4)))))})")
        d.add(flag, d.expansion(f"${{#{name}[@]}}"))
    else:
        d.emit(f"{name}={d.pick('ab', 'abcd', 'a')}")
        d.add(flag, d.expansion(f"${{#{name}}}"))


@value
def device_count(d: Draft) -> None:
    """The length of an array that was split from a list of devices."""
    flag, _ = d.setting(2, "^[1248]( [1248])*$")
    name, parts = d.name("DEVICES"), d.name("parts")
    devices = d.pick("0,1", "0,1,2,3", "4")
    d.emit(f'{name}="{devices}"', f'IFS=, read -ra {parts} <<< "${name}"')
    d.add(flag, d.expansion(f"${{#{parts}[@]}}"))


# Arrays.


@value
def array_words(d: Draft) -> None:
    """An array that takes the words of an unquoted text."""
    flag, values = d.setting()
    other, more = d.setting()
    name, words = d.name("LIST"), d.name("words")
    text = f"{flag} {values[0]} {other} {more[0]}"
    if d.chance(0.3):
        text = text.replace(" ", "  ")
    d.emit(f'{words}="{text}"', f"{name}=()", f"{name}+=({d.pick(f'${words}', f'${{{words}}}')})")
    d.splice(f'"${{{name}[@]}}"', f"${{{name}[*]}}")


@value
def array_quoted(d: Draft) -> None:
    flag, values = d.setting()
    name, word = d.name("list"), d.name()
    d.emit(f"{word}={d.quoted(values[0])}", f"{name}=({flag})", f'{name}+=("${word}")')
    d.splice(f'"${{{name}[@]}}"', f"${{{name}[@]}}")


@value
def array_mixed(d: Draft) -> None:
    """Literal words and an unquoted variable in one append."""
    flag, values = d.setting()
    other, more = d.setting()
    name, words = d.name("ARR"), d.name()
    d.emit(
        f"{name}=()",
        f"{words}='{other} {more[0]}'",
        f"{name}+=({flag} {values[0]} ${words})",
    )
    d.splice(d.pick(f'"${{{name}[@]}}"', f"${{{name}[@]}}"), f"${{{name}[*]}}")


@value
def array_rebuilt(d: Draft) -> None:
    flag, values = d.setting()
    switch = d.switch()
    name = d.name("parts")
    first = [f"{name}=({flag} {values[0]})", f'{name}=("${{{name}[@]}}" {switch})']
    if d.chance(0.4):
        first[1] = f'{name}=({switch} "${{{name}[@]}}")'
    d.emit(*first)
    d.splice(f'"${{{name}[@]}}"', f"${{{name}[*]}}")


@value
def array_index(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name("choices")
    d.emit(f"{name}=({' '.join(values)})")
    index = d.rng.randrange(len(values))
    if d.chance(0.4):
        counter = d.name("i")
        d.emit(f"{counter}={index}")
        d.add(flag, d.expansion(d.pick(f"${{{name}[{counter}]}}", f"${{{name}[${counter}]}}")))
    elif d.chance(0.3):
        d.add(flag, d.expansion(f"${{{name}}}"))
    else:
        d.add(flag, d.expansion(f"${{{name}[{index}]}}"))


@value
def table_lookup(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name("TABLE")
    rows = " ".join(
        f"[{key}]={value}" for key, value in zip(("small", "big"), values, strict=False)
    )
    key = d.subject(("small", "big"))
    d.emit(
        *d.rng.choice([[f"declare -A {name}=({rows})"], [f"declare -A {name}", f"{name}=({rows})"]])
    )
    if d.chance(0.4):
        own = d.name()
        fallback = d.pick("", f":-{values[0]}")
        d.emit(f'{own}="${{{name}[${key}]{fallback}}}"')
        d.add(flag, d.of(own))
    else:
        d.add(flag, d.expansion(f"${{{name}[${key}]}}"))


@value
def table_keys(d: Draft) -> None:
    flag, values = d.setting()
    other, more = d.setting()
    name, key = d.name("SETTINGS"), d.name("key")
    d.emit(f"declare -A {name}", f"{name}[{flag}]={values[0]}", f"{name}[{other}]={more[0]}")
    d.emit(f'for {key} in "${{!{name}[@]}}"; do')
    with d.block():
        d.splice(f'"${key}" "${{{name}[${key}]}}"', f"${key} ${{{name}[${key}]}}", now=True)
    d.emit("done")


# Texts that are read apart.


@value
def read_words(d: Draft) -> None:
    flag, values = d.setting()
    other, more = d.setting()
    one, two = d.name(), d.name()
    text = f"{values[0]} {more[0]}"
    if d.chance(0.3):
        whole = d.name()
        d.emit(f'{whole}="{text}"')
        text = f"${whole}"
    d.emit(f'read -r {one} {two} <<< "{text}"')
    d.add(flag, d.of(one))
    d.add(other, d.of(two))


@value
def split_at_commas(d: Draft) -> None:
    flag, values = d.setting()
    other, more = d.setting()
    text = f"{values[0]},{more[0]}"
    if d.chance(0.6):
        name = d.name("fields")
        comma = d.pick(",", "','")
        d.emit(f'IFS={comma} read -ra {name} <<< "{text}"')
        d.add(flag, d.expansion(f"${{{name}[0]}}"))
        d.add(other, d.expansion(f"${{{name}[1]}}"))
    else:
        one, two = d.name(), d.name()
        d.emit(f'IFS=, read -r {one} {two} <<< "{text}"')
        d.add(flag, d.of(one))
        d.add(other, d.of(two))


@value
def printed_into(d: Draft) -> None:
    name = d.name()
    if d.chance(0.3):
        flag, _ = d.setting(2, "^[0-9]{4}")
        d.emit(f"printf -v {name} '%d' {d.pick('8192', '30000', '4096')}")
    else:
        flag, values = d.setting()
        cut = d.rng.randint(0, len(values[0]))
        left, right = values[0][:cut], values[0][cut:]
        d.emit(f"printf -v {name} '%s%s' '{left}' \"{right}\"")
    d.add(flag, d.of(name))


@value
def printed(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    d.emit(f"{name}={d.quoted(values[0])}")
    form = d.pick("%s", "%s\\n")
    source = d.pick(f"$(printf '{form}' \"${name}\")", f'$(echo "${name}")', f"$(echo ${name})")
    if d.chance(0.5):
        own = d.name()
        d.emit(f"{own}={source}")
        d.add(flag, d.of(own))
    else:
        d.add(flag, d.expansion(source))


@value
def lines_into_array(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name("rows")
    d.emit(
        d.pick(
            f"mapfile -t {name} < <(printf '%s\\n' {flag} {values[0]})",
            f"mapfile -t {name} <<< $'{flag}\\n{values[0]}'",
            f"readarray -t {name} < <(echo {flag}; echo {values[0]})",
        )
    )
    d.splice(f'"${{{name}[@]}}"', f"${{{name}[*]}}")
