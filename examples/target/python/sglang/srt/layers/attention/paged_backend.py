"""Attention over the pages of a pool."""

import torch

from sglang.srt.mem_cache.page_pool import PagePool


class PagedBackend:
    def __init__(self, pool: PagePool):
        self.pool = pool

    def page_rows(self, layer_id):
        return self.pool.key_pages[layer_id - self.pool.first_layer].shape[0]

    def forward(self, layer_id, queries, slots):
        values = self.pool.get_value_slots(layer_id, slots)
        keys = self.pool.get_key_slots(layer_id, slots)
        return torch.softmax(queries @ keys.transpose(0, 1), dim=-1) @ values

    def forward_window(self, layer_id, queries, count):
        keys = self.pool.get_recent_keys(layer_id, count)
        return torch.softmax(queries @ keys.transpose(0, 1), dim=-1)
