"""The pool of a model where only some layers attend: it numbers those anew for an inner pool."""

from sglang.srt.mem_cache.latent_pool import LatentPool


class HybridPool:
    def __init__(self, attending, slots, width):
        self.load_counter = None
        self.index_of = {layer: index for index, layer in enumerate(attending)}
        self.inner = LatentPool(len(attending), slots, width)

    def attach_counter(self, counter):
        self.load_counter = counter
        # The counter counts the model's layers; the inner pool does not know their numbers.
        self.inner.attach_counter(None)

    def _await_layer(self, layer_id):
        if self.load_counter is not None:
            self.load_counter.wait_until(layer_id)

    def get_latent(self, layer_id):
        self._await_layer(layer_id)
        return self.inner.get_latent(self.index_of[layer_id])

    def get_latent_slots(self, layer_id, slots):
        self._await_layer(layer_id)
        return self.inner.get_latent_slots(self.index_of[layer_id], slots)

    def get_rope(self, layer_id, width):
        return self.inner.get_rope(self.index_of[layer_id], width)
