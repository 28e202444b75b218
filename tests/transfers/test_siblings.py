"""Who counts as a sibling, how many make a norm, and what callers answer for."""

from __future__ import annotations

import pytest

from tests.transfers.trees import COPY, GOOD, HEAD, PATH, SIBLINGS, WAIT, method, pool, side, told

FLAT = pool("Flat", method(COPY))


def family(waiting: int, more: int = 1) -> str:
    good = [pool(f"Good{n}", method(GOOD)) for n in range(waiting)]
    return HEAD + "".join([*good, *(pool(f"Bare{n}", method(COPY)) for n in range(more))])


@pytest.mark.parametrize(
    ("waiting", "bare", "stands_out"),
    [(1, 1, False), (2, 1, True), (3, 2, True), (3, 3, False), (4, 3, False), (6, 4, True)],
)
def test_two_that_wait_and_six_of_ten_make_a_norm(
    waiting: int, bare: int, stands_out: bool
) -> None:
    assert len(told(family(waiting, bare))) == (bare if stands_out else 0)


def test_classes_of_no_common_base_are_siblings_by_two_names() -> None:
    good = "".join(
        pool(name, method(GOOD), method(GOOD, "pull_in"), bases="") for name in ("Wide", "Tall")
    )
    both = pool("Flat", method(COPY), method(GOOD, "pull_in"), bases="")
    assert set(told(good + both)) == {"Flat.push_out"}
    assert told(good + both.replace("pull_in", "other")) == {}


@pytest.mark.parametrize(
    "base", ["(ABC)", "(nn.Module)", "(object)", "(Thread)", "(Generic[T])", "(Enum)", "(Protocol)"]
)
def test_a_base_that_everything_has_makes_no_family(base: str) -> None:
    good = "".join(pool(name, method(GOOD), bases=base) for name in ("Wide", "Tall"))
    assert told(good + pool("Flat", method(COPY), bases=base)) == {}
    assert told((good + pool("Flat", method(COPY), bases=base)).replace(base, "(Pool[T])"))


def test_a_base_of_a_base_makes_one_in_whatever_file_it_stands() -> None:
    between = pool("Between", method("pass", "other"))
    flat = pool("Flat", method(COPY), bases="(Between)")
    assert told(HEAD + SIBLINGS + flat) == {}
    for text, near in (
        (between + flat, ""),
        (flat, between),
        (between, flat),
        ("", between + flat),
    ):
        assert set(told(HEAD + SIBLINGS + text, near=near)) == {"Flat.push_out"}


def test_a_helper_of_a_base_in_another_file() -> None:
    flat = pool("Flat", method(f"{COPY}\nself.close_up()"), bases="(Between)")
    between = pool("Between", method("self.close_all()", "close_up"), bases="(Beyond)")
    beyond = pool("Beyond", method(WAIT, "close_all"))
    assert told(HEAD + SIBLINGS + flat, near=between, far=beyond) == {}
    assert told(HEAD + SIBLINGS + flat, near=between, far=beyond.replace(WAIT, "pass"))


def test_set_up_is_no_transfer() -> None:
    text = (HEAD + SIBLINGS + FLAT).replace("push_out", "warmup_rows")
    assert told(text) == {}
    assert told(text.replace("warmup_rows", "pull_rows"))


BACK = "self.pool.rows[layer][slots] = staged[places]"


def ways(*back: str, out: tuple[str, ...] = (GOOD, GOOD, GOOD), name: str = "push_in") -> str:
    """Classes with a way out each, and a way back each."""
    text = HEAD
    for number, (one, other) in enumerate(zip(out, back, strict=True)):
        text += pool(f"Pool{number}", method(one), method(other, name))
    return text


def test_the_other_ways_of_the_family_tell_where_one_of_its_own_name_waits() -> None:
    good = f"{BACK}\n{WAIT}"
    assert set(told(ways(good, BACK, BACK))) == {"Pool1.push_in", "Pool2.push_in"}
    # None of its own name, no word in common, and ways out of which too few wait.
    assert told(ways(BACK, BACK, BACK)) == {}
    assert told(ways(good, BACK, BACK, name="restore")) == {}
    assert told(ways(good, BACK, BACK, out=(GOOD, COPY, COPY))) == {}


def test_one_other_way_is_no_norm_nor_are_some_where_none_of_the_name_waits() -> None:
    good = f"{BACK}\n{WAIT}"
    far = pool("Far", method(GOOD), method(good, "push_in"), bases="(Other)")
    wide = pool("Wide", method(GOOD), method(good, "push_in"))
    tall = pool("Tall", method(GOOD), method(BACK, "push_in"))
    bare = pool("Flat", method(BACK, "push_in"))
    assert told(HEAD + far + wide + bare) == {}
    assert set(told(HEAD + far + wide + tall + bare)) == {"Tall.push_in", "Flat.push_in"}
    none = "".join(pool(name, method(GOOD), method("pass", "push_in")) for name in ("Wide", "Tall"))
    farther = far.replace("(Other)", "(Beyond)").replace("Far", "Farther")
    assert told(HEAD + far + farther + none + bare) == {}


def test_a_name_of_which_few_wait_is_not_read() -> None:
    def names(more: int) -> set[str]:
        bare = "".join(pool(f"Bare{n}", method("pass")) for n in range(more))
        found = side({PATH: SIBLINGS + bare})
        return set(found.norm.methods.names)

    assert (names(8), names(9)) == ({"push_out"}, set())


def test_who_is_done_without_a_line_that_waits_shows_nothing() -> None:
    odd = f"try:\n    {COPY}\n    raise ValueError\nexcept ValueError:\n    return {WAIT}"
    family = "".join(pool(name, method(odd.replace(WAIT, "1"))) for name in ("Odd", "Odder"))
    far = "".join(pool(name, method(GOOD), bases=f"({name}Base)") for name in ("Far", "Farther"))
    assert told(HEAD + far + family + FLAT) == {}


def test_a_function_that_is_only_defined_starts_nothing() -> None:
    flat = pool("Flat", method(f"def inner():\n    {COPY}\nself.later = inner"))
    found = side({PATH: HEAD + SIBLINGS + flat}).norm.methods.found
    assert {one.place.owner for one in found} == {"Wide", "Tall"}


def test_a_copy_of_which_nothing_returns_early_is_less_sure() -> None:
    flat = pool("Flat", method("self.rows[slots] = self.staged[slots].to(self.device)"))
    [gap] = side({PATH: HEAD + SIBLINGS + flat}).gaps
    assert not gap.method.visible
    [gap] = side({PATH: HEAD + SIBLINGS + FLAT}).gaps
    assert gap.method.visible
    rows = pool("Flat", method("self.pool.rows[0][slots] = {}"))
    for value, visible in (("staged[0]", True), ("staged[0].to(device)", False)):
        [gap] = side({PATH: HEAD + SIBLINGS + rows.format(value)}).gaps
        assert gap.method.visible is visible


def test_who_calls_it_may_wait() -> None:
    text = HEAD + SIBLINGS + FLAT
    waits = "\n\ndef evict(pool, slots):\n    pool.push_out(slots)\n    torch.cuda.synchronize()\n"
    bare = "\n\ndef drop(pool, slots):\n    pool.push_out(slots)\n"
    above = "\n\ndef clean(cache, pool, slots):\n    cache.drop(pool, slots)\n    done.wait()\n"
    assert told(text + waits) == {}
    assert told(text + waits + bare)
    assert told(text + waits + bare + above) == {}
    assert told(text + waits + bare + above.replace("cache.drop", "drop")) == {}
    assert told(text, near=waits) == {}
    assert told(text + waits.replace("    torch", "    if slots:\n        torch"))


def test_callers_are_followed_three_calls_upwards() -> None:
    calls = "\n\ndef {}(pool, slots):\n    pool.{}(slots)\n"
    chain = ["push_out", "drop", "clean", "sweep", "leave"]
    for length, left in ((3, False), (4, True)):
        pairs = list(zip(chain[1 : length + 1], chain, strict=False))
        text = "".join(calls.format(*pair) for pair in pairs) + "    torch.cuda.synchronize()\n"
        assert bool(told(HEAD + SIBLINGS + FLAT + text)) is left


def test_a_name_that_many_files_call_is_nobodys_own() -> None:
    caller = "def evict(pool, slots):\n    pool.push_out(slots)\n    torch.cuda.synchronize()\n"
    few = {f"near{n}": caller for n in range(12)}
    assert told(HEAD + SIBLINGS + FLAT, **few) == {}
    assert told(HEAD + SIBLINGS + FLAT, more=caller, **few)


FREES = "self.pages.release(slots)"


@pytest.mark.parametrize(
    "frees",
    [
        FREES,
        "self._free_pages(slots)",
        "self.host.complete_io(slots)",
        "self.send_ack(slots)",
        "self.acks.append(slots)",
        "self.done_queue.put(slots)",
        "self.done.set()",
        "self.notify(slots)",
    ],
)
def test_what_is_let_go_before_the_wait(frees: str) -> None:
    good = f"{COPY}\n{WAIT}\n{frees}"
    family = HEAD + pool("Wide", method(good)) + pool("Tall", method(good))
    early = pool("Flat", method(f"{COPY}\n{frees}\n{WAIT}"))
    [gap] = side({PATH: family + early}).gaps
    assert gap.early is not None
    assert told(family + pool("Flat", method(good))) == {}
    # Siblings that let nothing go say nothing of when.
    assert told(HEAD + SIBLINGS + early) == {}


def test_siblings_that_let_go_early_themselves_make_no_norm() -> None:
    bodies = {"Wide": f"{COPY}\n{WAIT}\n{FREES}", "Tall": f"{COPY}\n{FREES}\n{WAIT}"}
    text = HEAD + "".join(pool(name, method(body)) for name, body in bodies.items())
    assert told(text + pool("Flat", method(bodies["Tall"]))) == {}


@pytest.mark.parametrize(
    "other",
    [
        "self.lock.release()",
        "self.work.done()",
        "self.seen.append(slots)",
        "self.get_free(slots)",
        "self.get_done(slots)",
        "self.done.set(slots)",
        "self.names.set(slots)",
        "self.names.set()",
    ],
)
def test_what_lets_nothing_go(other: str) -> None:
    good = f"{COPY}\n{WAIT}\n{other}"
    family = HEAD + pool("Wide", method(good)) + pool("Tall", method(good))
    assert told(family + pool("Flat", method(f"{COPY}\n{other}\n{WAIT}"))) == {}
