"""Finds prefill and decode servers of one deployment that differ where they must agree."""

from __future__ import annotations

import json
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from auditor.model import Confidence, Evidence, Hit, Launch, Reach
from auditor.rulebook import Param, Parameter, Texts, of_shapes
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.spellings import (
    Setting,
    Settings,
    Spellings,
    constant,
    declared,
    listed_words,
    once,
    place,
    settings,
)
from auditor.serve.tables.facts import Flag

_UNSET = ("", "None")


@dataclass(frozen=True)
class _Pair:
    """The prefill and the decode servers of one deployment; several of a role are its replicas."""

    prefill: tuple[Settings, ...]
    decode: tuple[Settings, ...]
    apart: bool

    @property
    def all(self) -> tuple[Settings, ...]:
        return (*self.prefill, *self.decode)


@dataclass(frozen=True)
class _Told:
    """What all servers of a role have a field at: the text, and the setting where one is given."""

    text: str
    setting: Setting | None
    launch: Launch


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """Pairs that differ in one of ``params: fields``, or in how they split a model.

    ``params: {shape: settings, fields: […], because: …}`` names fields of the tree's flags and why
    they must agree;
    ``{shape: tensor-parallel}`` compares over how many ranks attention is split.
    """
    find = _SHAPES[str(params["shape"])]
    spellings = Spellings(view.tables.flags)
    if spellings:
        pairs = _pairs(view.launches, spellings)
        yield from once(find(params, view, spellings, pairs))


def _pairs(launches: Sequence[Launch], spellings: Spellings) -> list[_Pair]:
    """Pairs of one file by model; else the one prefill file and the one decode file of a folder.

    Of several servers of a role, only what they agree on is compared, so that the alternatives of
    a script cannot be taken for partners.
    """
    by_file: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        if launch.program == "server" and launch.role in ("prefill", "decode"):
            by_file[launch.path].append(launch)
    pairs: list[_Pair] = []
    single: dict[str, list[list[Launch]]] = defaultdict(list)
    for path, group in sorted(by_file.items()):
        roles = {launch.role for launch in group}
        if len(roles) == 1:
            single[posixpath.dirname(path)].append(group)
            continue
        pairs += [_pair(part, spellings) for part in _by_model(group)]
    for files in single.values():
        if len(files) == 2 and files[0][0].role != files[1][0].role:
            pairs.append(_pair([*files[0], *files[1]], spellings, apart=True))
    return pairs


def _by_model(group: list[Launch]) -> list[list[Launch]]:
    """Servers of one file that belong together: one of each role, else those of one model."""
    count = {role: sum(launch.role == role for launch in group) for role in ("prefill", "decode")}
    if set(count.values()) == {1}:
        return [group]
    parts: dict[str | None, list[Launch]] = defaultdict(list)
    for launch in group:
        parts[launch.model or _model_text(launch)].append(launch)
    return [part for part in parts.values() if len({launch.role for launch in part}) == 2]


def _model_text(launch: Launch) -> str | None:
    for argument in launch.arguments:
        if argument.flag in ("--model-path", "--model"):
            return argument.value
    return None


def _pair(group: Sequence[Launch], spellings: Spellings, *, apart: bool = False) -> _Pair:
    given = [settings(launch, spellings) for launch in group]
    return _Pair(
        tuple(g for g in given if g.launch.role == "prefill"),
        tuple(g for g in given if g.launch.role == "decode"),
        apart,
    )


def _differing(
    params: Mapping[str, Param], view: ServeView, spellings: Spellings, pairs: list[_Pair]
) -> Iterator[Hit]:
    del view
    fields = listed_words(params, "fields")
    for pair in pairs:
        for field in fields:
            flag = spellings.field(field)
            if flag is None:
                continue
            prefill, decode = _told(pair.prefill, flag), _told(pair.decode, flag)
            if prefill is None or decode is None or _agree(prefill, decode):
                continue
            if field == "model_path" and None in (prefill.setting, decode.setting):
                continue  # it is named somewhere that was not read
            yield from _hits(pair, flag, prefill, decode, str(params.get("because", "")))


def _told(side: Sequence[Settings], flag: Flag) -> _Told | None:
    """What a role has a field at, None where its servers differ or a run decides."""
    rows: list[_Told] = []
    for given in side:
        setting = given.known.get(flag.dest)
        if setting is None and given.may_set(flag.dest):
            return None
        text = (constant(flag) or "") if setting is None else _text(setting)
        rows.append(_Told(text, setting, given.launch))
    return rows[0] if len({(row.text, row.setting is None) for row in rows}) == 1 else None


def _text(setting: Setting) -> str:
    return setting.argument.value if setting.argument.value is not None else str(setting.value)


def _agree(one: _Told, other: _Told) -> bool:
    if one.setting is None and other.setting is None:
        return True
    if one.text == other.text:
        return True
    # The same directory may be mounted at two places.
    if "/" in one.text + other.text:
        return posixpath.basename(one.text.rstrip("/")) == posixpath.basename(
            other.text.rstrip("/")
        )
    kinds = [told.setting.value for told in (one, other) if told.setting is not None]
    return len(kinds) == 2 and kinds[0] == kinds[1]


def _confidence(one: _Told, other: _Told) -> Confidence:
    """How sure it is that two sides differ when they run.

    A field that one of them leaves alone is at the flag's default; where that is no value at all
    the server works one out, and may well come to the same.
    """
    absent = next((told for told in (one, other) if told.setting is None), None)
    if absent is None:
        return "high"
    if absent.text in _UNSET:
        return "low"
    return "medium" if absent.text == "auto" else "high"


def _hits(pair: _Pair, flag: Flag, prefill: _Told, decode: _Told, because: str) -> Iterator[Hit]:
    name = flag.names[0]
    setting, told, role = decode.setting, prefill, "prefill"
    if setting is None:
        setting, told, role = prefill.setting, decode, "decode"
    if setting is None:
        return
    message = f"decode has {name} {_shown(decode)}, prefill {_shown(prefill)}"
    message += f"; {because}" if because else ""
    confidence = _confidence(prefill, decode)
    reach: Reach = "live"
    why = "both servers are started so"
    if confidence == "low":
        reach, why = "latent", f"the other server works {name} out when it starts"
    if pair.apart:
        message += f" ({posixpath.basename(told.launch.path)} beside it is the other one)"
        confidence = "medium" if confidence == "high" else confidence
    argument = setting.argument
    yield Hit(
        place(argument.path, argument.line, argument.column),
        f"{name} {prefill.text} {decode.text}",
        message,
        (_seen(told, role, name), declared(flag, f"declares {name}")),
        confidence,
        reach,
        why,
        f"give both servers the same {name}",
        f"pair:{flag.dest}",
    )


def _shown(told: _Told) -> str:
    if told.setting is not None:
        return told.text
    return f"not given (default {told.text})" if told.text not in _UNSET else "not given"


def _seen(told: _Told, role: str, name: str) -> Evidence:
    if told.setting is None:
        return Evidence(
            told.launch.path, told.launch.line, "", f"the {role} server, without {name}"
        )
    argument = told.setting.argument
    return Evidence(argument.path, argument.line, "", f"the {role} server: {name} {told.text}")


def _splits(
    params: Mapping[str, Param], view: ServeView, spellings: Spellings, pairs: list[_Pair]
) -> Iterator[Hit]:
    """Attention split over other numbers of ranks; where the model compresses its keys and values
    into one latent (MLA), every rank holds all of it and the numbers may differ."""
    del params
    flag = spellings.field("tp_size")
    if flag is None:
        return
    for pair in pairs:
        prefill, decode = _ranks(pair.prefill, spellings), _ranks(pair.decode, spellings)
        if prefill is None or decode is None or prefill[0] == decode[0]:
            continue
        latent = _compresses(view, pair)
        if latent is True:
            continue
        where = decode[1] or prefill[1]
        if where is None:
            continue
        message = f"attention is split over {prefill[0]} ranks for prefill, {decode[0]} for decode"
        reach: Reach = "live"
        why = "the model's configuration has no compressed keys and values"
        if latent is None:
            reach, why = "latent", "it depends on the model, whose configuration is not at hand"
            message += "; for a model without compressed keys and values (MLA) every transfer is"
            message += " resliced, which is slow and has crashed under load"
        else:
            message += f"; {why} (MLA), so every transfer is resliced, which is slow and has"
            message += " crashed under load"
        other = (pair.prefill if decode[1] else pair.decode)[0]
        told = prefill[1] if decode[1] else decode[1]
        line = told.argument.line if told else other.launch.line
        note = f"the {other.launch.role} server"
        evidence = (
            Evidence(told.argument.path if told else other.launch.path, line, "", note),
            declared(flag, f"declares {flag.names[0]}"),
        )
        argument = where.argument
        yield Hit(
            place(argument.path, argument.line, argument.column),
            f"{flag.names[0]} {prefill[0]} {decode[0]}",
            message,
            evidence,
            "medium",
            reach,
            why,
            "give both servers the same tensor parallel size unless the model uses MLA",
            "pair:tp_size",
        )


def _ranks(side: Sequence[Settings], spellings: Spellings) -> tuple[int, Setting | None] | None:
    """Over how many ranks a role splits attention, by which setting; None where a run decides.

    With data-parallel attention each of ``dp_size`` groups has its share of the ranks.
    """
    found: list[tuple[int, Setting | None]] = []
    for given in side:
        told = {name: _given(given, spellings, name) for name in _SPLITTING}
        if None in told.values():
            return None
        numbers = {}
        for name in ("tp_size", "dp_size"):
            setting = told[name] or None
            value = 1 if setting is None else setting.value
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                return None
            numbers[name] = value
        attention = told["enable_dp_attention"] or None
        share = numbers["dp_size"] if attention is not None and attention.value else 1
        found.append((max(1, numbers["tp_size"] // share), told["tp_size"] or None))
    return found[0] if len({number for number, _ in found}) == 1 else None


_SPLITTING = ("tp_size", "dp_size", "enable_dp_attention")


def _given(given: Settings, spellings: Spellings, name: str) -> Setting | Literal[False] | None:
    """The setting of a field, False where there is none, None where a run decides."""
    flag = spellings.field(name)
    dest = name if flag is None else flag.dest
    setting = given.known.get(dest)
    if setting is None and given.may_set(dest):
        return None
    return setting or False


def _compresses(view: ServeView, pair: _Pair) -> bool | None:
    """Whether the model's own configuration says that it uses MLA; None where it is not found."""
    models = {given.launch.model for given in pair.all}
    model = models.pop() if len(models) == 1 else None
    if not model:
        return None
    data = view.places.read(pair.all[0].launch, posixpath.join(model, "config.json"))
    if data is None:
        return None
    try:
        config = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(config, dict):
        return None
    inner = config.get("text_config")
    rows = [config, inner] if isinstance(inner, dict) else [config]
    return any(row.get("kv_lora_rank") for row in rows)


_SHAPES: dict[
    str,
    Callable[
        [Mapping[str, Param], ServeView, Spellings, list[_Pair]],
        Iterator[Hit],
    ],
] = {
    "settings": _differing,
    "tensor-parallel": _splits,
}

PARAMETERS = of_shapes(
    _SHAPES,
    fields=Parameter(Texts, required=True, shapes=("settings",)),
    because=Parameter(shapes=("settings",)),
)
