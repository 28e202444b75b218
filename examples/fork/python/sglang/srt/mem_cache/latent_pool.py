"""The pool of compressed attention: one row a token holds its key and its value."""

import torch
import torch.distributed


class LatentPool:
    def __init__(self, layers, slots, width):
        self.load_counter = None
        self.latent_rows = [torch.zeros(slots, width) for _ in range(layers)]

    def attach_counter(self, counter):
        self.load_counter = counter

    def get_latent(self, index):
        if self.load_counter is not None:
            self.load_counter.wait_until(index)
        return self.latent_rows[index]

    def get_latent_slots(self, index, slots):
        if self.load_counter is not None:
            self.load_counter.wait_until(index)
        return self.latent_rows[index].index_select(0, slots)

    def get_rope(self, index, width):
        if self.load_counter is not None:
            self.load_counter.wait_until(index)
        return self.latent_rows[index][..., -width:]

    def share_latent(self, index, group, gate=None):
        """Sends a layer to the group; waits on ``gate`` first, where there is one."""
        if gate is not None:
            gate.wait_until(index)
        torch.distributed.broadcast(self.latent_rows[index], 0, group)
