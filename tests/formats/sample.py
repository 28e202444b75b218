"""Reports to show: small ones made by hand, of every kind of entry."""

from __future__ import annotations

from typing import Any

import msgspec

from auditor.model import (
    ChangeSet,
    Checked,
    Commit,
    Deployment,
    Evidence,
    Excerpt,
    FileChange,
    Finding,
    Hit,
    Location,
    Proposal,
    Replacement,
    Report,
    SideInfo,
    Skipped,
    Symbol,
    TurnedOn,
)

POOL = "python/sglang/srt/mem_cache/memory_pool.py"
NPU = "python/sglang/srt/hardware_backend/npu/dsv4/dsv4_memory_pool.py"


def finding(**changes: Any) -> Finding:
    """A high, introduced, live finding; ``changes`` are fields of it, of its hit, or its place."""
    place = {
        "path": changes.pop("path", POOL),
        "symbol": changes.pop("symbol", "NSATokenToKVPool.get_index_k_continuous"),
        "line": changes.pop("line", 1811),
        "column": changes.pop("column", 15),
        "end_line": changes.pop("end_line", 1811),
        "end_column": changes.pop("end_column", 0),
    }
    hit = {
        "anchor": "index_k_with_scale_buffer",
        "message": "reads index_k_with_scale_buffer of a layer without waiting for its transfer;"
        " 4 of 6 readers wait first",
        "evidence": evidence(5),
        "confidence": "high",
        "reach": "live",
        "reach_reason": "the pool is registered with a layer transfer counter",
        "fix": "call self._wait_for_layer(layer_id) before the read",
        "cause": "",
        "confirmed": "",
    }
    hit.update({key: changes.pop(key) for key in tuple(changes) if key in hit})
    return Finding(
        **{
            "rule": "ungated-buffer-read",
            "category": "sync",
            "severity": "high",
            "fingerprint": "3f2a9c1d77aa0b51",
            "origin": "introduced",
            "origin_reason": "neither v0.5.17 nor the merge base has this method",
            "effect": "garbled answers under load, no error",
            "means": "Answers are garbled once requests hit the host tier.",
            **changes,
            "hit": Hit(
                where=Location(
                    Symbol(place["path"], place["symbol"]),
                    place["line"],
                    place["column"],
                    place["end_line"],
                    place["end_column"],
                ),
                **hit,
            ),
        }
    )


def evidence(number: int) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            POOL,
            1700 + 12 * n,
            f"NSATokenToKVPool.get_part_{n}",
            "waits, then reads",
            sibling=True,
        )
        for n in range(number)
    )


def excerpts() -> tuple[Excerpt, ...]:
    """The lines of the first finding of a full report: the read and its nearest sibling's wait."""
    symbol = finding().hit.where.symbol.qualname
    read = ("    def get_index_k_continuous(self, layer_id):", "        return self.k[layer_id]")
    wait = (
        "    def get_part_0(self, layer_id):",
        "        self._wait_for_layer(layer_id)",
        "        return self.k[layer_id]",
    )
    told = "waits, then reads"
    return (
        Excerpt("read", "fork", POOL, symbol, 1810, read, 1811, 16, 32),
        Excerpt("sibling", "fork", POOL, evidence(1)[0].symbol, 1699, wait, 1700, 9, 0, told),
    )


def report(*findings: Finding, **changes: Any) -> Report:
    """A small report that is in order but for ``findings``."""
    plain = Report(
        tool_version="0.1.0",
        fork=SideInfo("fork", "working tree", "worktree", "1f" * 20, 2210, 212),
        upstream=SideInfo("upstream", "v0.5.17", "revision", "2e" * 20, 2195, 208),
        base=None,
        targets=(),
        changes=ChangeSet(files=()),
        findings=findings,
        hidden={},
        checked=(),
        skipped=(),
        warnings=(),
        configuration={"fail-on": "high (default)"},
        timings={"scan": 0.21, "extract": 1.5},
    )
    return msgspec.structs.replace(plain, **changes)


def full_report() -> Report:
    """One of everything that a report can hold."""
    areas = ("srt/mem_cache", "srt/layers/attention", "srt/models", "srt/managers", "lang")
    areas += ("srt/disaggregation", "srt/hardware_backend/npu", "bench")
    lost = Evidence(NPU, 400, "DSV4TokenToKVPool.get_key_buffer", "waited here", "upstream")
    return report(
        finding(
            deployment=Deployment(
                "on",
                turned_on=(TurnedOn("deploy/decode.sh", 14, "--enable-hierarchical-cache"),),
                mitigation="take --enable-hierarchical-cache out (decode.sh:14)",
            )
        ),
        finding(line=1833, symbol="NSATokenToKVPool.get_index_k_scale", fingerprint="aa11" * 4),
        finding(
            rule="override-drops-gate",
            path=NPU,
            line=416,
            symbol="DSV4NPUTokenToKVPool.get_key_buffer",
            message="overrides DSV4TokenToKVPool.get_key_buffer, which waits for the layer, and"
            " does not wait",
            cause="DSV4NPUTokenToKVPool",
            fingerprint="bb22" * 4,
            origin="regressed",
            origin_reason="the same method of v0.5.17 waits at line 400",
            evidence=(lost, *evidence(1)),
        ),
        finding(
            rule="override-drops-gate",
            path=NPU,
            line=431,
            symbol="DSV4NPUTokenToKVPool.get_kv_buffer",
            cause="DSV4NPUTokenToKVPool",
            fingerprint="cc33" * 4,
        ),
        finding(
            rule="optional-gate-omitted",
            severity="medium",
            path="python/sglang/srt/layers/attention/layer_split.py",
            line=470,
            symbol="LayerSplit.prefetch_kv_buffer",
            message="calls get_kv_buffer without the wait_event that 3 of 4 callers pass",
            confidence="medium",
            reach="latent",
            reach_reason="no start of the server in this tree sets --enable-layer-split",
            origin="fixed-upstream",
            origin_reason="v0.5.18 passes wait_event at line 501",
            fixed_in="v0.5.18",
            fingerprint="dd44" * 4,
            evidence=evidence(2),
        ),
        finding(
            severity="low",
            line=90,
            symbol="",
            origin="inherited",
            origin_reason="v0.5.17 and the merge base have the same read",
            fingerprint="ee55" * 4,
        ),
        finding(
            line=12,
            fingerprint="ff66" * 4,
            disposition="suppressed",
            disposition_reason="read on the transfer thread only",
        ),
        base=SideInfo("base", "merge base", "revision", "3d" * 20, 2200, 209),
        targets=(SideInfo("target", "pypi:0.5.18", "release", None, 2301, 230),),
        changes=ChangeSet(
            files=(
                FileChange("sglang/lang/x.bin", "deleted", "lang", None, None),
                *(
                    FileChange(f"sglang/{area}/f{n}.py", status, area, 10 * n, n)
                    for n, area in enumerate(areas)
                    for status in ("added", "modified")
                ),
            ),
            commits=(
                Commit("4c" * 20, "2026-08-01T10:00:00+00:00", "pool: FP4", ("srt/mem_cache",)),
                Commit("5b" * 20, "2026-08-02T10:00:00+00:00", "npu", ("srt/mem_cache", "lang")),
            ),
            ahead=2,
            behind=31,
            own=2,
        ),
        hidden={"min-confidence": 12, "origin": 3},
        checked=(
            Checked("sync", "kv_buffer", 9, 9, POOL, "MHATokenToKVPool"),
            Checked("sync", "k_buffer", 4, 4, POOL, "MLATokenToKVPool"),
            Checked("sync", "index_k_with_scale_buffer", 4, 6, POOL, "NSATokenToKVPool"),
            Checked("sync", "temporal", 2, 2, NPU, "DSV4NPUTokenToKVPool"),
        ),
        skipped=(
            Skipped("fork", "python/sglang/srt/broken.py", "scan", "line 3: invalid syntax"),
            Skipped("upstream", "python/sglang/srt/big.py", "snapshot", "too large: 9.1 MiB"),
        ),
        warnings=("v0.5.10 is far older than the fork's base; the closest tag is v0.5.17",),
        excerpts={"3f2a9c1d77aa0b51": excerpts()},
        proposals={
            "3f2a9c1d77aa0b51": Proposal(
                "unsafe",
                "waits as NSATokenToKVPool.get_part_3 does",
                Replacement(POOL, 1811, 1, 1811, 1, "        self._wait_for_layer(layer_id)\n"),
            ),
            **{
                digits * 4: Proposal("display", "call self._wait_for_layer(layer_id) first")
                for digits in ("aa11", "bb22", "cc33", "dd44", "ee55")
            },
        },
        configuration={
            "upstream": "v0.5.17 (command line)",
            "min-confidence": "medium (default)",
            "fail-on": "high (audit.toml)",
        },
    )
