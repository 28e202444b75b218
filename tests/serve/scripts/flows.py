"""Idioms of serve scripts that branch, loop or read the caller's arguments, and those that nest."""

from __future__ import annotations

from tests.serve.scripts.draft import Draft, Full, Value
from tests.serve.scripts.idioms import Idiom
from tests.serve.scripts.values import VALUES

FLOWS: dict[str, Idiom] = {}
FIRST: dict[str, Idiom] = {}
"""Those that look at the caller's arguments: at most one in a script, before all others."""
NESTS: dict[str, Idiom] = {}
"""Those that hold another idiom."""


def flow(write: Idiom) -> Idiom:
    FLOWS[write.__name__] = write
    return write


def first(write: Idiom) -> Idiom:
    FIRST[write.__name__] = write
    return write


def nest(write: Idiom) -> Idiom:
    NESTS[write.__name__] = write
    return write


# Branches.


def _cases(d: Draft, complete: bool) -> None:
    flag, values = d.setting()
    keys = ("a", "b")
    subject = d.subject(keys)
    adds = d.chance(0.4)
    name = d.name()
    patterns = [d.pick("a", '"a"', "a|A", "[a]"), d.pick("b", "'b'", "b*")]
    if complete:
        patterns.append("*")
    word = d.pick(f"${subject}", f'"${subject}"')
    d.emit(f"case {word} in")
    with d.block():
        for number, pattern in enumerate(patterns):
            result = values[number % len(values)]
            if adds:
                d.emit(f"{pattern})")
                with d.block():
                    d.add(flag, d.literal(result))
                    d.emit(";;")
            else:
                d.emit(f"{pattern}) {name}={d.quoted(result)} ;;")
    d.emit("esac")
    if not adds:
        if complete or d.chance(0.3):
            d.add(flag, d.of(name))
        else:
            d.splice(f"${{{name}:+{flag} ${name}}}", f"${{{name}:+{flag} ${name}}}")


@flow
def case_open(d: Draft) -> None:
    _cases(d, complete=False)


@flow
def case_complete(d: Draft) -> None:
    _cases(d, complete=True)


@flow
def emptied_then_set(d: Draft) -> None:
    flag, values = d.setting()
    subject, name = d.subject(("1",)), d.name(d.pick("FLAG", "opt", "EXTRA"))
    test = d.test(subject, "1")
    d.emit(d.pick(f"{name}=", f'{name}=""'))
    d.emit(
        d.pick(
            f'{test} && {name}="{flag} {values[0]}"',
            f'if {test}; then {name}="{flag} {values[0]}"; fi',
            f'{test} || {name}="{flag} {values[0]}"',
        )
    )
    d.splice(f"${name}", f"${name}")


@flow
def tested_append(d: Draft) -> None:
    """Arguments that are there only where a variable is set."""
    flag, values = d.setting()
    name = d.variable(values[0], values[1])
    shown = d.pick(f"${name}", f"${{{name}:-}}")
    d.emit(f'if [ -n "{shown}" ]; then')
    with d.block():
        d.add(flag, d.of(name))
    d.emit("fi")


@flow
def if_else(d: Draft) -> None:
    flag, values = d.setting()
    keys = ["a", "b"][: d.rng.choice((1, 1, 2))]
    subject = d.subject(keys)
    complete = d.chance(0.6)
    adds = d.chance(0.5)
    name = d.name()
    if not complete and not adds:
        d.emit(f"{name}={values[-1]}")
    for number, key in enumerate(keys):
        d.emit(f"{'elif' if number else 'if'} {d.test(subject, key)}; then")
        with d.block():
            _set_or_add(d, adds, flag, name, values[number])
    if complete:
        d.emit("else")
        with d.block():
            _set_or_add(d, adds, flag, name, values[-1])
    d.emit("fi")
    if not adds:
        d.add(flag, d.of(name))


def _set_or_add(d: Draft, adds: bool, flag: str, name: str, text: str) -> None:
    if adds:
        d.add(flag, d.literal(text))
    else:
        d.emit(f"{name}={d.quoted(text)}")


@flow
def two_of_one_test(d: Draft) -> None:
    """Two settings that one branch decides: they go together."""
    flag, values = d.setting()
    other, more = d.setting()
    subject, one, two = d.subject(("fast",)), d.name(), d.name()
    d.emit(f"if {d.test(subject, 'fast')}; then")
    d.emit(f"  {one}={values[0]}", f"  {two}={more[0]}", "else")
    d.emit(f"  {one}={values[1]}", f"  {two}={more[1]}", "fi")
    d.add(flag, d.of(one))
    d.add(other, d.of(two))


@flow
def compared_number(d: Draft) -> None:
    flag, _ = d.setting(2, "^[1248]( [1248])*$")
    name = d.variable("4") if d.chance(0.5) else d.name()
    if name not in d.state.axes:
        d.emit(f"{name}={d.pick('1', '4')}")
    operator = d.pick("-gt", "-ge")
    d.emit(f'if [ "${{{name}:-1}}" {operator} 2 ]; then')
    with d.block():
        d.add(flag, d.literal("2"))
    d.emit("else")
    with d.block():
        d.add(flag, d.literal("1"))
    d.emit("fi")


@flow
def matched_pattern(d: Draft) -> None:
    flag, values = d.setting()
    name = d.variable("base-fp8", "base")
    test = d.pick("== *fp8*", "=~ fp8", "= *-fp?")
    d.emit(f"if [[ ${name} {test} ]]; then")
    with d.block():
        d.add(flag, d.literal(values[0]))
    d.emit("fi")


@flow
def refuses(d: Draft) -> None:
    """A script that ends where a variable says something that it does not know."""
    flag, values = d.setting()
    name, subject = d.name(), d.variable("a", "other")
    d.emit(f"case ${{{subject}:-a}} in", f"  a) {name}={values[0]} ;;")
    d.emit(d.pick("  *) exit 1 ;;", '  *) echo "unknown" >&2; exit 2 ;;'), "esac")
    d.add(flag, d.of(name))


# Loops.


@flow
def for_words(d: Draft) -> None:
    flag, values = d.setting()
    other, more = d.setting()
    name = d.name("word")
    d.emit(f"for {name} in {flag} {values[0]} {other} {more[0]}; do")
    with d.block():
        d.splice(f'"${name}"', f"${name}", now=True)
    d.emit("done")


@flow
def for_array(d: Draft) -> None:
    name, item = d.name("switches"), d.name("item")
    d.emit(f"{name}=({d.switch()} {d.switch()})")
    items = d.pick(f'"${{{name}[@]}}"', f"${{{name}[@]}}")
    d.emit(f"for {item} in {items}; do")
    with d.block():
        d.splice(f'"${item}"', f"${item}", now=True)
    d.emit("done")


@flow
def for_last(d: Draft) -> None:
    """A loop that leaves the last of some texts, or the one at which it stops."""
    flag, values = d.setting()
    item, name = d.name("v"), d.name("found")
    d.emit(f"for {item} in {' '.join(values)}; do")
    if d.chance(0.5):
        d.emit(f"  {name}=${item}")
        if d.chance(0.5):
            d.emit(f'  [ "${item}" = {d.pick(*values)} ] && break')
    else:
        d.emit(f'  [ "${item}" = {values[0]} ] || continue', f"  {name}=${item}")
    d.emit("done")
    d.add(flag, d.of(name))


@flow
def counted_for(d: Draft) -> None:
    flag, _ = d.setting(2, "^[1248]( [1248])*$")
    i, total = d.name("i"), d.name("total")
    end = d.pick("1", "2", "3")
    d.emit(f"{total}=1", f"for (({i}=0; {i}<{end}; {i}++)); do")
    d.emit(d.pick(f"  {total}=$(({total} * 2))", f"  ((({total}*=2)))", f"  let {total}*=2"))
    d.emit("done")
    d.add(flag, d.of(total))


@flow
def counted_while(d: Draft) -> None:
    name, n = d.name("text"), d.name("n")
    flag, values = d.setting()
    end = d.pick("1", "2")
    parts = " ".join(values[: int(end) or 1])
    array = d.name("all")
    d.emit(f"{array}=({parts})", f"{n}=0", f"while [ ${n} -lt {end} ]; do")
    d.emit(f"  {name}=${{{array}[{n}]}}", f"  {n}=$(({n} + 1))", "done")
    d.add(flag, d.of(name))


@flow
def joined_in_loop(d: Draft) -> None:
    """A list that a loop joins, as of hosts or of devices."""
    flag, values = d.setting()
    name, item = d.name("joined"), d.name("each")
    d.emit(f"{name}=''", f"for {item} in {values[0]}; do")
    d.emit(f'  {name}="${{{name}:+${name},}}${item}"', "done")
    d.add(flag, d.of(name))


# Functions that add.


@flow
def function_adds(d: Draft) -> None:
    if d.style == "set":
        raise Full
    flag, values = d.setting()
    name = d.name("add_option")
    d.emit(f"{name}() {{")
    with d.block(function=True):
        d.add(flag, d.expansion("$1") if d.chance(0.5) else d.literal(values[0]), now=True)
    d.emit("}", f"{name} {values[0]}")


# What the caller gives.


@first
def if_argument(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    d.arguments(("a",), ("b",))
    d.emit(f"{name}={values[-1]}" if d.chance(0.5) else f"{name}=''")
    d.emit(d.pick('if [ "$1" = a ]; then', "if [[ $1 == a ]]; then", 'if [ "${1:-}" = "a" ]; then'))
    d.emit(f"  {name}={values[0]}")
    if d.chance(0.5):
        d.emit('elif [ "$1" = b ]; then', f"  {name}={values[1]}")
    d.emit("fi")
    d.splice(f"${{{name}:+{flag} ${name}}}", f"${{{name}:+{flag} ${name}}}")


@first
def case_argument(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    d.arguments(("a",), ("b",), ("other",))
    d.emit("case $1 in" if d.chance(0.5) else 'case "${1:-a}" in')
    d.emit(f"  a) {name}={values[0]} ;;", f"  b) {name}={values[1]} ;;")
    d.emit(d.pick(f"  *) {name}={values[-1]} ;;", "  *) exit 1 ;;"), "esac")
    d.add(flag, d.of(name))


@first
def default_argument(d: Draft) -> None:
    flag, values = d.setting()
    name = d.name()
    d.state.soft.add(flag)
    d.arguments((values[1],))
    d.emit(f"{name}=${{1:-{values[0]}}}")
    if d.chance(0.4):
        d.emit("shift || true")
    d.add(flag, d.of(name))


@first
def table_argument(d: Draft) -> None:
    flag, values = d.setting()
    name, own = d.name("BY_SIZE"), d.name()
    d.arguments(("a",), ("b",))
    d.emit(f"declare -A {name}=([a]={values[0]} [b]={values[1]})")
    d.emit(f'{own}="${{{name}[${{1:-a}}]}}"')
    d.state.soft.add(flag)
    d.add(flag, d.of(own))


@first
def option_loop(d: Draft) -> None:
    flag, values = d.setting()
    switch = d.switch()
    name, on = d.name(), d.name("ON")
    d.state.soft.add(flag)
    d.arguments(("--size", values[1]), ("--fast",), ("--size", values[1], "--fast"))
    d.emit(f"{name}={values[0]}", f"{on}=")
    d.emit(d.pick("while [ $# -gt 0 ]; do", "while [[ $# -gt 0 ]]; do", "while (( $# )); do"))
    d.emit("  case $1 in" if d.chance(0.5) else '  case "$1" in')
    if d.chance(0.5):
        d.emit(f'    --size) {name}="$2"; shift 2 ;;', f"    --fast) {on}={switch}; shift ;;")
        d.emit("    *) shift ;;", "  esac")
    else:
        d.emit(f"    --size) shift; {name}=$1 ;;", f"    --fast) {on}={switch} ;;")
        d.emit("    *) echo bad; exit 1 ;;", "  esac", "  shift")
    d.emit("done")
    d.add(flag, d.of(name))
    d.splice(f"${on}", f"${on}")


@first
def options_read(d: Draft) -> None:
    flag, values = d.setting()
    switch = d.switch()
    name, letter, on = d.name(), d.name("opt"), d.name("fast")
    d.state.soft.add(flag)
    d.arguments(("-s", values[1]), ("-f",), ("-fs", values[1]))
    d.emit(f"{name}={values[0]}", f'while getopts "s:f" {letter}; do', f"  case ${letter} in")
    d.emit(f"    s) {name}=$OPTARG ;;", f"    f) {on}={switch} ;;")
    d.emit("  esac", "done", "shift $((OPTIND - 1))")
    d.add(flag, d.of(name))
    d.splice(f"${on}", f"${on}")


@first
def passed_on(d: Draft) -> None:
    """Arguments of the caller that the server gets as they are."""
    given = d.switch()
    d.state.open.add(given)
    d.arguments((given,))
    name = d.name("REST")
    d.emit(f'{name}=("$@")')
    if d.chance(0.5) and d.style == "line":
        d.state.passing = True
        d.splice(d.pick('"$@"', "$@"), "$*")
    else:
        d.splice(f'"${{{name}[@]}}"', f"${{{name}[*]}}")


@first
def positional_set(d: Draft) -> None:
    """The positional parameters as the one array that every shell has."""
    flag, values = d.setting()
    name = d.name("kept")
    d.emit(d.pick(f"set -- {flag} {values[0]}", f'set -- {flag}\nset -- "$@" {values[0]}'))
    if d.chance(0.5) and d.style == "line":
        d.state.passing = True
        d.splice('"$@"', "$*")
    else:
        d.emit(f'{name}=("$@")')
        d.splice(f'"${{{name}[@]}}"', f"${{{name}[*]}}")


@first
def shifted(d: Draft) -> None:
    flag, values = d.setting()
    name, second = d.name(), d.name()
    d.emit(f"set -- {values[0]} {values[1]}")
    d.emit(f"{name}=$1", d.pick("shift", "shift 1"), f"{second}=${{1}}")
    d.add(flag, d.of(d.pick(name, second)))


# Those that hold another.


def inner_idiom(d: Draft) -> None:
    """Writes one idiom of those that stand anywhere."""
    names = [*VALUES, *FLOWS]
    for name in d.rng.sample(names, 6):
        if d.try_idiom(name, {**VALUES, **FLOWS}[name]):
            return
    raise Full


@nest
def nested_if(d: Draft) -> None:
    d.emit(f"if {d.test(d.subject(('on',)), 'on')}; then")
    with d.block():
        inner_idiom(d)
    d.emit("fi")


@nest
def nested_else(d: Draft) -> None:
    flag, values = d.setting()
    d.emit(f"if {d.test(d.subject(('on',)), 'on')}; then")
    with d.block():
        d.add(flag, d.literal(values[0]))
    d.emit("else")
    with d.block():
        inner_idiom(d)
    d.emit("fi")


@nest
def nested_case(d: Draft) -> None:
    d.emit(f"case ${d.subject(('big',))} in", "  big)")
    with d.block(), d.block():
        inner_idiom(d)
        d.emit(";;")
    d.emit("esac")


@nest
def nested_function(d: Draft) -> None:
    """An idiom that is the body of a function which the script calls."""
    if d.style == "set":
        raise Full
    name = d.name("configure")
    d.emit(f"{name}() {{")
    with d.block(function=True):
        inner_idiom(d)
    d.emit("}", name)


@nest
def function_in_if(d: Draft) -> None:
    flag, values = d.setting()
    name, key = d.name("value_of"), d.subject(("x",))
    d.emit(f"if {d.test(key, 'x')}; then")
    d.emit(
        f"  {name}() {{ echo {values[0]}; }}", "else", f"  {name}() {{ echo {values[1]}; }}", "fi"
    )
    d.add(flag, d.expansion(f"$({name})"))


@nest
def nested_loop(d: Draft) -> None:
    """An idiom within a loop of one turn."""
    d.emit(f"for {d.name('turn')} in once; do")
    with d.block():
        inner_idiom(d)
    d.emit("done")


@nest
def value_in_literal(d: Draft) -> None:
    """A variable within a longer word."""
    flag = d.model()
    name, base = d.name("SIZE"), d.name("BASE")
    d.emit(f"{base}={d.pick('/data', 'org')}", f"{name}={d.pick('8b', '70b')}")
    d.add(flag, Value(f'"${{{base}}}/model-${name}"', f"${{{base}}}/model-${{{name}}}"))
