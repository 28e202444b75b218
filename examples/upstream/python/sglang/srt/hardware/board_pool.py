"""The paged pool on boards that keep pages in blocks of sixteen rows."""

from sglang.srt.mem_cache.page_pool import PagePool


class BoardPool(PagePool):
    def get_values(self, layer_id):
        return super().get_values(layer_id).view(-1, 16, 128)

    def get_scales(self, layer_id):
        return self.scale_pages[layer_id - self.first_layer].view(-1, 16, 2)
