"""Writes small pools: a class with a buffer, some readers that wait and some that do not."""

from __future__ import annotations

from collections.abc import Iterable

POOL = "sglang/srt/mem_cache/pool.py"
READERS = ("get_rows", "get_page", "get_head")


def pool(
    gated: Iterable[str] = READERS,
    open_: Iterable[str] = (),
    name: str = "Pool",
    *,
    armed: bool = True,
    buffer: str = "rows",
    gate: str = "counter",
) -> str:
    """A pool whose ``gated`` readers wait and whose ``open_`` ones do not.

    ``armed`` adds a transfer that moves the buffer, so that its defects are live.
    """
    lines = [
        "import torch",
        "",
        "",
        f"class {name}:",
        "    def __init__(self, count):",
        f"        self.{gate} = None",
        f"        self.{buffer} = [torch.zeros(8, 4) for _ in range(count)]",
        "",
        f"    def attach_{gate}(self, {gate}):",
        f"        self.{gate} = {gate}",
        "",
        "    def set_rows(self, layer_id, slots, values):",
        f"        self.{buffer}[layer_id][slots] = values",
    ]
    for reader in (*gated, *open_):
        lines += ["", f"    def {reader}(self, layer_id, slots=None):"]
        if reader in gated:
            lines.append(f"        if self.{gate} is not None:")
            lines.append(f"            self.{gate}.wait_until(layer_id)")
        lines.append(f"        return self.{buffer}[layer_id][slots]")
    if armed:
        lines += [
            "",
            "",
            f"class {name}Loader:",
            f"    def __init__(self, pool: {name}, gate):",
            "        self.pool = pool",
            f"        self.pool.attach_{gate}(gate)",
            "",
            "    def load_layer(self, layer_id, slots, host):",
            f"        self.pool.{buffer}[layer_id][slots] = host[slots]",
        ]
    return "\n".join(lines) + "\n"
