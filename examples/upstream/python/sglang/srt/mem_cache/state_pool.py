"""The states of recurrent layers, one row a request."""

import torch


class StatePool:
    def __init__(self, layers, requests, width):
        self.load_counter = None
        self.conv_states = torch.zeros(layers, requests, 4)
        self.scan_states = torch.zeros(layers, requests, width)

    def attach_counter(self, counter):
        self.load_counter = counter

    def get_states(self, layer_id):
        if self.load_counter is not None:
            self.load_counter.wait_until(layer_id)
        return self.conv_states[layer_id], self.scan_states[layer_id]

    def get_scan_rows(self, layer_id, requests):
        if self.load_counter is not None:
            self.load_counter.wait_until(layer_id)
        return self.scan_states[layer_id][requests]
