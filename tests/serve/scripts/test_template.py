from __future__ import annotations

from collections.abc import Iterator

import pytest

from auditor.serve.scripts import template as module
from auditor.serve.scripts.template import NAME, VALUE, Templates, as_loaded
from tests.serve.checks.parser_tree import AS_JSON, PLAIN, WITH_CALLS


@pytest.fixture
def templates() -> Iterator[Templates]:
    asked = Templates()
    yield asked
    asked.close()


DOUBLING = (
    "{% set n = namespace(s='a') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}"
)
HOSTILE = {
    "endless": (
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "does not end",
    ),
    "hundred megabytes": (
        "{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
        "writes more than 1 MB",
    ),
    "one long text": ("{{ 'x' * 100000000000 }}", "too much memory"),
    "doubling": (DOUBLING, ("too much memory", "does not end")),
    "padding": ("{{ 'x' | center(20000000000) }}", "too much memory"),
    "class of a list": ("{{ messages.__class__.__mro__ }}", "may not use"),
    "subclasses": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "may not use"),
    "globals": ("{{ cycler.__init__.__globals__ }}", "may not use"),
    "format": ("{{ '{0.__class__.__mro__}'.format(messages) }}", "may not use"),
    "recursion": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"),
    "brackets": ("{{ " + "(" * 30000 + "1" + ")" * 30000 + " }}", "nested too deeply"),
    "blocks": ("{% if 1 %}" * 5000 + "{% endif %}" * 5000, "nested too deeply"),
    "no jinja": ("text\n{{ messages", "line 2 is no Jinja"),
    "unknown filter": ("{{ messages | nothing }}", "no Jinja"),
    "size": ("x" * 1_000_001, "larger than 1 MB"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_one_clear_reason(name: str, templates: Templates) -> None:
    text, reason = HOSTILE[name]
    facts = templates.facts(text)
    said = facts.unread or facts.plain_error
    assert any(part in said for part in ((reason,) if isinstance(reason, str) else reason))
    assert len(facts.unread) < 300
    assert templates.facts(PLAIN).renders


def test_a_template_that_ends_the_process_costs_only_itself(
    templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SECONDS_A_TEMPLATE", 3.0)
    # Folded while it is compiled, in one step that no alarm interrupts.
    facts = templates.facts("{{ 9 ** (9 ** 9) }}")
    assert facts.unread
    assert templates.facts(PLAIN).renders


def test_nothing_is_read_or_included(templates: Templates) -> None:
    assert not templates.facts("{% include '/etc/hostname' %}").renders


def test_constants_are_kept_of_a_template_that_does_not_end(templates: Templates) -> None:
    facts = templates.facts(HOSTILE["endless"][0] + "\n{{ '<tool_call>' }}")
    assert (2, "<tool_call>") in facts.constants


def test_a_tool_conversation(templates: Templates) -> None:
    facts = templates.facts(AS_JSON)
    assert facts.shapes == ("wrapped", "flat")
    assert facts.call.startswith("<|bot|><tool_call>\n")
    assert NAME in facts.call
    assert VALUE in facts.call
    assert facts.arguments == {"dict": "shown", "str": "shown"}
    assert facts.result == "shown"
    assert facts.tail == "<|bot|>"


def test_a_switch_of_thinking(templates: Templates) -> None:
    facts = templates.facts(WITH_CALLS)
    assert facts.toggle == "thinking"
    assert facts.tail_on.endswith("<think>")
    assert facts.tail_off.endswith("</think>")
    assert facts.tail == facts.tail_off


def test_what_the_servers_library_adds_to_jinja(templates: Templates) -> None:
    text = (
        "{% generation %}{{ {'é': 1} | tojson }}{% endgeneration %}{{ strftime_now('%Y') }}"
        "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{% endfor %}"
    )
    assert templates.facts(text).renders


def test_an_answer_is_kept_by_the_text(
    templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = templates.facts(PLAIN)
    monkeypatch.setattr(Templates, "_study", None)
    assert templates.facts(PLAIN) is first


def test_one_process_answers_for_all(templates: Templates) -> None:
    templates.facts(PLAIN)
    child = templates._child
    templates.facts(AS_JSON)
    assert templates._child is child
    assert child is not None


def test_a_file_is_loaded_as_the_server_does() -> None:
    assert as_loaded(b"\none\\ntwo\n\n") == "one\ntwo"


def test_patterns_of_a_tree_are_run_beside(templates: Templates) -> None:
    patterns = (r"<a>(.*?)</a>|<b>(.*?)</b>", r"(unclosed", r"nothing (here)")
    found = templates.groups(patterns, "<a>one</a><b>two</b>")
    assert found == ((("one",), ("two",)), (), ())
    assert templates.groups((), "text") == ()


def test_a_pattern_that_does_not_end_matches_nothing(templates: Templates) -> None:
    assert templates.groups((r"(a|a|a)*b(c)",), "a" * 60) == ((),)
    assert templates.facts(PLAIN).renders
