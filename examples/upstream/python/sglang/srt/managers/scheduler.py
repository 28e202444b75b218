"""Makes the pools that the settings ask for, and the host tier over them."""

import torch

from sglang.srt.disaggregation.senders import LinkSender
from sglang.srt.hardware.board_pool import BoardPool
from sglang.srt.layers.attention.paged_backend import PagedBackend
from sglang.srt.mem_cache.draft_stash import DraftStash
from sglang.srt.mem_cache.host_tier import LatentTier, PageTier
from sglang.srt.mem_cache.hybrid_pool import HybridPool
from sglang.srt.mem_cache.latent_pool import LatentPool
from sglang.srt.mem_cache.page_pool import PagePool
from sglang.srt.mem_cache.state_pool import StatePool
from sglang.srt.server_args import ServerArgs

LAYERS = 32


def is_board():
    return hasattr(torch, "board") and torch.board.is_available()


class Scheduler:
    def __init__(self, server_args: ServerArgs, link=None):
        self.server_args = server_args
        self.enable_host_tier = server_args.enable_hierarchical_cache
        self.init_pools()
        self.init_host_tier()
        self.backend = PagedBackend(self.pages)
        self.sender = LinkSender(link) if server_args.disaggregation_mode == "prefill" else None

    def init_pools(self):
        page_pool_class = BoardPool if is_board() else PagePool
        self.pages = page_pool_class(LAYERS, 4096, 128)
        self.latents = LatentPool(LAYERS, 4096, 576)
        self.states = StatePool(LAYERS, 256, 64)
        self.hybrid = HybridPool(range(0, LAYERS, 4), 4096, 128)
        self.stash = None
        if self.server_args.speculative_algorithm is not None:
            self.stash = DraftStash(8, 4096, 128)

    def init_host_tier(self):
        if not self.enable_host_tier:
            return
        for pool in (self.pages, self.hybrid, self.states, self.stash):
            if pool is not None:
                PageTier(pool, LAYERS)
        LatentTier(self.latents, LAYERS)
