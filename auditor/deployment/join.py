"""Holds the conditions of findings against the launches of a deployment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from auditor.deployment.needs import Alternatives, Need, Needs
from auditor.model import Deployment, Launch, TurnedOn, Variable
from auditor.serve.checks.setting import read_json
from auditor.serve.checks.spellings import Settings, Spellings, constant, settings
from auditor.serve.scripts.places import SMALL, Places
from auditor.serve.tables.facts import Flag
from auditor.serve.tables.terms import holds

_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_MOST_PLACES = 8
_LONGEST_COST = 60
_TURNS_ON = re.compile(r"(?:whether to\s+)?(?:enables?|uses?|turns? on|activates?)\s+", re.I)
_SENTENCE = re.compile(r"[.;:(]\s|[.;(]$|\s\(")


@dataclass(frozen=True)
class Answer:
    """Whether needs hold: certainly, certainly not, or None for ``reason``.

    ``by`` are the settings of the launch that make them so.
    """

    holds: bool | None
    reason: str = ""
    by: tuple[TurnedOn, ...] = ()


@dataclass(frozen=True)
class Given:
    """One launch of the server in the terms of its tree."""

    launch: Launch
    settings: Settings
    config: Mapping[str, Any] | None

    @cached_property
    def variables(self) -> Mapping[str, Variable]:
        """The environment of the launch, the last value of a name winning."""
        return {row.name: row for row in self.launch.environment}

    @cached_property
    def open_ended(self) -> bool:
        """Whether a run may add flags: a word is not known that is no flag's value."""
        values = {(a.path, a.line, a.column) for a in self.launch.arguments if not a.resolved}
        return self.launch.unresolved > len(values)

    def answer(self, need: Need, without: str = "") -> Answer:
        """Whether one need holds, as if the flag of the field ``without`` were not given."""
        match need.kind:
            case "flag":
                return self._flag(need, without)
            case "variable":
                return self._variable(need)
            case "model":
                return self._model(need)
            case "platform":
                return self._platform(need)
        if need.usual is True:
            return Answer(True)
        return Answer(None, f"{need.text} is known at run time only")

    def _flag(self, need: Need, without: str) -> Answer:
        field = need.term.field
        known = self.settings.known.get(field)
        if known is not None and field != without:
            if not holds(need.term, known.value):
                return Answer(False)
            place = TurnedOn(known.argument.path, known.argument.line, known.text)
            return Answer(True, by=(place,) if need.usual is not True else ())
        if field in self.settings.open and field != without:
            return Answer(None, f"whether {self._shown(field)} is given is known at run time only")
        if need.usual is None:
            return Answer(None, f"the server settles {need.text} itself where it is not given")
        if self.open_ended:
            return Answer(None, "a part of the command line is known at run time only")
        return Answer(need.usual)

    def _shown(self, field: str) -> str:
        return "--" + field.replace("_", "-")

    def _variable(self, need: Need) -> Answer:
        name = need.term.field.removeprefix("$")
        row = self.variables.get(name)
        if row is None:
            if need.usual is None:
                return Answer(None, f"what the tree takes for {name} is not told")
            return Answer(need.usual)
        if not row.resolved or row.conditional:
            return Answer(None, f"{name} is known at run time only")
        value: object = row.value
        if need.term.op in ("true", "false"):
            value = row.value.strip().lower() in _TRUE
        if not holds(need.term, value):
            return Answer(False)
        place = TurnedOn(row.path, row.line, f"{name}={row.value}")
        return Answer(True, by=(place,) if need.usual is not True else ())

    def _model(self, need: Need) -> Answer:
        if self.config is None:
            return Answer(None, "the model's configuration is not at hand")
        passed = _passes(need, self.config)
        if passed is None or need.term.op not in ("true", "false"):
            return Answer(None, f"its configuration does not tell whether {need.text}")
        return Answer(passed is (need.term.op == "true"))

    def _platform(self, need: Need) -> Answer:
        word = need.term.field.partition(" ")[2]
        device = self.settings.known.get("device")
        if device is None:
            return Answer(None, "the platform is not known")
        same = str(device.value).lower() == word.lower()
        if not same and word.lower() not in device.flag.help.lower():
            return Answer(None, "the platform is not known")
        return Answer(same is (need.term.op == "true"))

    def one_of(self, alternatives: Alternatives, without: str = "") -> Answer:
        """Whether all needs of one alternative hold; the best known of several."""
        best = Answer(False)
        for needs in alternatives:
            found = self.all_of(needs, without)
            if _rank(found) > _rank(best):
                best = found
        return best

    def all_of(self, needs: Iterable[Need], without: str = "") -> Answer:
        """Whether all of some needs hold."""
        by: dict[TurnedOn, None] = {}
        reasons: dict[str, None] = {}
        for need in needs:
            answer = self.answer(need, without)
            if answer.holds is False:
                return Answer(False)
            by.update(dict.fromkeys(answer.by))
            if answer.holds is None:
                reasons[answer.reason] = None
        reason = next(iter(sorted(reasons, key=len)), "")
        return Answer(None if reasons else True, reason, tuple(by))

    def whole(self, needs: Needs, without: str = "") -> Answer:
        """Whether the gate is armed and the code is there."""
        if not needs.armed:
            return Answer(None, "what arms the gate was not found in the tree")
        if not needs.made:
            return Answer(None, "what runs this code was not found in the tree")
        armed = self.one_of(needs.armed, without)
        made = self.one_of(needs.made, without)
        if False in (armed.holds, made.holds):
            return Answer(False)
        by = tuple(dict.fromkeys((*armed.by, *made.by)))
        if armed.holds is None or made.holds is None:
            return Answer(None, armed.reason or made.reason, by)
        return Answer(True, by=by)


def _rank(answer: Answer) -> tuple[int, int]:
    return {False: 0, None: 1, True: 2}[answer.holds], len(answer.by)


def _passes(need: Need, config: Mapping[str, Any]) -> bool | None:
    """Whether a model's configuration passes the tests of a need, None where it does not tell."""
    if not need.tests:
        return None
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else None
    told = {"architecture": first, "model_type": config.get("model_type")}
    rows = [[_one(told.get(test[0]), test) for test in row] for row in need.tests]
    if any(all(row) for row in rows):
        return True
    return None if any(False not in row for row in rows) else False


def _one(value: object, test: tuple[str, tuple[str, ...], bool, bool]) -> bool | None:
    _, texts, part, negated = test
    if not isinstance(value, str):
        return None
    found = any(text in value for text in texts) if part else value in texts
    return found is not negated


@dataclass(frozen=True)
class Launches:
    """The launches of the server that a deployment makes, and its flags."""

    given: tuple[Given, ...]
    spellings: Spellings

    @classmethod
    def of(cls, launches: Sequence[Launch], flags: Sequence[Flag], places: Places) -> Launches:
        """Those of all launches that start the server."""
        spellings = Spellings(flags)
        rows = []
        for launch in launches:
            if launch.program == "server":
                folder = places.folder(launch, launch.model) if launch.model else None
                data = folder.read("config.json", SMALL) if folder is not None else None
                config = read_json(data)
                found = config if isinstance(config, dict) else None
                rows.append(Given(launch, settings(launch, spellings), found))
        return cls(tuple(rows), spellings)

    def deployment(self, needs: Needs) -> Deployment:
        """Whether one of the launches runs what has these needs."""
        conditions = needs.conditions()
        if not self.given:
            return Deployment("no-launch", conditions)
        answers = [(given, given.whole(needs)) for given in self.given]
        running = [(given, answer) for given, answer in answers if answer.holds]
        if running:
            state = "on"
        else:
            running = [(given, answer) for given, answer in answers if answer.holds is None]
            state = "undecided"
        if not running:
            return Deployment("off", conditions)
        # Of the undecided the one of which most is known speaks for all.
        running.sort(key=lambda row: -len(row[1].by))
        places = list(dict.fromkeys(place for _, answer in running for place in answer.by))
        if state == "on" and not places and len(running) < len(self.given):
            places = [TurnedOn(g.launch.path, g.launch.line, "by default") for g, _ in running]
        mitigation = self.mitigation(needs, running)
        turned_on = tuple(sorted(places)[:_MOST_PLACES])
        if state == "on":
            return Deployment("on", conditions, turned_on, mitigation=mitigation)
        reason = running[0][1].reason
        return Deployment("undecided", conditions, turned_on, reason, mitigation)

    def mitigation(self, needs: Needs, running: Sequence[tuple[Given, Answer]]) -> str:
        """The one setting without which no launch runs it, where there is one."""
        fields: dict[str, list[TurnedOn]] = {}
        for given, answer in running:
            for field, setting in given.settings.known.items():
                argument = setting.argument
                place = TurnedOn(argument.path, argument.line, setting.text)
                if place in answer.by:
                    fields.setdefault(field, []).append(place)
        best: list[tuple[bool, str, list[TurnedOn], Flag]] = []
        for field, places in fields.items():
            flag = self.spellings.field(field)
            if flag is None or field == "model_path":
                continue
            if all(given.whole(needs, field).holds is False for given, _ in running):
                best.append((flag.takes_value, field, places, flag))
        if not best:
            return ""
        # A server cannot be told to be no decode server: what has a value says what it is.
        switches = [row for row in best if not row[0]] or [r for r in best if _optional(r[3])]
        if not switches:
            return ""
        _, _, places, flag = min(switches, key=lambda row: row[1])
        where = ", ".join(dict.fromkeys(f"{p.path}:{p.line}" for p in sorted(places)))
        return f"take {places[0].setting} out ({where}){_cost(flag)}"


def _optional(flag: Flag) -> bool:
    """Whether a flag with a value may be left to the server."""
    return constant(flag) in ("None", None)


def _cost(flag: Flag) -> str:
    """What a flag is for, by its help, else by its name."""
    told = " ".join(flag.help.split())
    end = _SENTENCE.search(told)
    told = told[: end.start()] if end else told
    started = _TURNS_ON.match(told)
    if started and len(told) <= _LONGEST_COST:
        what = told[started.end() :].rstrip(".")
        return f"; costs {what[:1].lower() + what[1:] if what[1:2].islower() else what}"
    words = flag.dest.split("_")
    if words[0] in ("enable", "use"):
        return f"; costs the {' '.join(words[1:])}"
    return ""
