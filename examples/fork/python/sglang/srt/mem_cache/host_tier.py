"""The host tier: brings layers back to the device on a stream of its own, one event a layer."""

import torch


class LayerCounter:
    def __init__(self, layers):
        self.events = [torch.cuda.Event() for _ in range(layers)]

    def wait_until(self, index):
        self.events[index].wait()

    def done(self, index, stream):
        self.events[index].record(stream)


class PageTier:
    def __init__(self, pool, layers):
        self.pool = pool
        self.counter = LayerCounter(layers)
        self.stream = torch.cuda.Stream()
        self.host_pages = [torch.zeros(3, 1 << 20, 128) for _ in range(layers)]
        pool.attach_counter(self.counter)

    def load_pages(self, host_slots, slots):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for index, (keys, values, scales) in enumerate(self.host_pages):
                self.pool.key_pages[index][slots] = keys[host_slots].cuda(non_blocking=True)
                self.pool.value_pages[index][slots] = values[host_slots].cuda(non_blocking=True)
                self.pool.scale_pages[index][slots] = scales[host_slots].cuda(non_blocking=True)
                self.counter.done(index, self.stream)


class LatentTier:
    def __init__(self, pool, layers):
        self.pool = pool
        self.counter = LayerCounter(layers)
        self.stream = torch.cuda.Stream()
        self.host_rows = [torch.zeros(1 << 20, 576) for _ in range(layers)]
        pool.attach_counter(self.counter)

    def load_rows(self, host_slots, slots):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for index, rows in enumerate(self.host_rows):
                self.pool.latent_rows[index][slots] = rows[host_slots].cuda(non_blocking=True)
                self.counter.done(index, self.stream)
