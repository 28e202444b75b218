"""What an object that computes on a pool's buffers hands back is no buffer of its own."""

from __future__ import annotations

from auditor.runs.audit import audit_sources

POOL = """
import torch


class Pool:
    def __init__(self, count, method, scales):
        self.counter = None
        self.method = method
        self.scales = scales
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.method.unpacked(self.rows[layer_id], layer_id)

    def get_tail(self, layer_id, count):
        self.counter.wait_until(layer_id)
        return self.method.unpacked(self.rows[layer_id][-count:], layer_id)

    def get_scales(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.scales.of_layer(layer_id)

    def get_mean(self, layer_id):
        return self.method.unpacked(self.rows[layer_id], layer_id).mean()
"""


def test_only_what_holds_elements_is_counted_and_told() -> None:
    files = {"sglang/srt/pool.py": POOL}
    report = audit_sources(files, files)
    told = {(row.subject, row.held, row.total) for row in report.checked}
    assert told == {("Pool.rows", 2, 3), ("Pool.scales", 1, 1)}
    (finding,) = report.findings
    assert finding.hit.where.symbol.qualname == "Pool.get_mean"
    assert "get_mean reads rows without waiting" in finding.hit.message
