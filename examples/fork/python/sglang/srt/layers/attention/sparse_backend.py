"""Attention over the few pages that score best."""

import torch

from sglang.srt.mem_cache.page_pool import PagePool


class SparseBackend:
    def __init__(self, pool: PagePool, pages):
        self.pool = pool
        self.pages = pages

    def score(self, layer_id, queries):
        rows = self.pool.key_pages[layer_id - self.pool.first_layer]
        return queries @ rows.transpose(0, 1)

    def forward(self, layer_id, queries):
        best = self.score(layer_id, queries).topk(self.pages).indices
        keys, values = self.pool.get_pair(layer_id)
        return torch.softmax(queries @ keys[best].transpose(0, 1), dim=-1) @ values[best]
