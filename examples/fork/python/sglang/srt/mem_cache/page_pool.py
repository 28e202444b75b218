"""The paged pool: keys, values and scales of each layer, filled from the host in the background."""

import torch


class PagePool:
    def __init__(self, layers, pages, width, first_layer=0, chunked=False):
        self.first_layer = first_layer
        self.chunked = chunked
        self.load_counter = None
        self.key_pages = [torch.zeros(pages, width) for _ in range(layers)]
        self.value_pages = [torch.zeros(pages, width) for _ in range(layers)]
        self.scale_pages = [torch.ones(pages, 2) for _ in range(layers)]

    def attach_counter(self, counter):
        """Arms the gate: from here on a layer may still be on its way from the host."""
        self.load_counter = counter

    def _await_layer(self, layer_id):
        if self.load_counter is not None:
            self.load_counter.wait_until(layer_id - self.first_layer)

    def get_keys(self, layer_id):
        self._await_layer(layer_id)
        return self.key_pages[layer_id - self.first_layer]

    def get_key_slots(self, layer_id, slots):
        self._await_layer(layer_id)
        return self.key_pages[layer_id - self.first_layer].index_select(0, slots)

    def get_recent_keys(self, layer_id, count):
        if self.chunked:
            self._await_layer(layer_id)
        return self.key_pages[layer_id - self.first_layer][-count:]

    def get_values(self, layer_id):
        self._await_layer(layer_id)
        return self.value_pages[layer_id - self.first_layer]

    def get_value_slots(self, layer_id, slots):
        rows = self.value_pages[layer_id - self.first_layer].index_select(0, slots)
        self._await_layer(layer_id)
        return rows

    def get_pair(self, layer_id):
        return self.get_keys(layer_id), self.get_values(layer_id)

    def get_scales(self, layer_id):
        self._await_layer(layer_id)
        return self.scale_pages[layer_id - self.first_layer]

    def get_scale_slots(self, layer_id, slots):
        self._await_layer(layer_id)
        return self.scale_pages[layer_id - self.first_layer].index_select(0, slots)

    def get_scale_peak(self, layer_id):
        return self.scale_pages[layer_id - self.first_layer].amax(dim=0)

    def get_key_norms(self, layer_id):
        self._await_layer(layer_id)
        return self.key_pages[layer_id - self.first_layer].norm(dim=-1)

    def set_pair(self, layer_id, slots, keys, values):
        index = layer_id - self.first_layer
        self.key_pages[index][slots] = keys
        self.value_pages[index][slots] = values

    def page_bytes(self, layer_id):
        index = layer_id - self.first_layer
        return self.key_pages[index].nbytes + self.value_pages[index].nbytes
