"""Sends layers to the other ranks before they are needed there."""

from sglang.srt.mem_cache.latent_pool import LatentPool


def share_first(pool: LatentPool, group):
    pool.share_latent(0, group, gate=pool.load_counter)


def share_next(pool: LatentPool, index, group):
    pool.share_latent(index + 1, group)
