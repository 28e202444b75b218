"""Hidden states that the draft model takes over from the large one, copied on a side stream."""

import torch


class DraftStash:
    def __init__(self, steps, tokens, width):
        self.copied = None
        self.hidden = [torch.zeros(tokens, width) for _ in range(steps)]

    def attach_counter(self, counter):
        self.copied = counter

    def take_hidden(self, step):
        return self.hidden[step]

    def load_hidden(self, step, rows):
        self.hidden[step].copy_(rows, non_blocking=True)
