"""Roofline of one kernel launch (Williams et al., 2009): it takes as long as its memory traffic or its arithmetic,
whichever is longer. Bytes and operations are counted from the shapes of the launch."""

from dataclasses import dataclass

from headrace.engine.checkpoints.layout.model_shape import Product
from headrace.planning.device_profile import DeviceProfile
from headrace.planning.footprint import ITEM_BYTES, Footprint


@dataclass(frozen=True, slots=True)
class Launch:
    """Work of a launch. A multiplication and an addition are two operations."""

    moved_bytes: float
    operations: float

    def seconds(self, device: DeviceProfile, precision: str) -> float:
        """Returns the time on a device at the shares of its peak rates that its profile assumes."""
        bandwidth = device.memory_bandwidth * device.assumed.bandwidth_share
        rate = device.arithmetic_rate(precision) * device.assumed.arithmetic_share
        return max(self.moved_bytes / bandwidth, self.operations / rate)

    def split(self, count: int) -> "Launch":
        """Returns the part of one of `count` devices."""
        return Launch(self.moved_bytes / count, self.operations / count)


def product_launch(footprint: Footprint, product: Product, row_count: int) -> Launch:
    """Counts a product of `row_count` rows with weights. Of experts, those are read that a row is expected to choose,
    where each is chosen as often as another."""
    weight_bytes = sum(map(footprint.module_bytes, product.modules))
    idle_share = (1 - product.chosen / product.copies) ** row_count
    read_count = product.copies * (1 - idle_share)
    row_bytes = (product.in_size + product.out_size) * footprint.item_bytes
    return Launch(
        weight_bytes * read_count + row_count * product.chosen * row_bytes,
        2.0 * row_count * product.chosen * product.in_size * product.out_size,
    )


def attention_launch(footprint: Footprint, layer: int, query_count: int, context: int, sequence_count: int) -> Launch:
    """Counts the attention of one layer: each of `sequence_count` sequences has `query_count` queries, the last of
    which sees `context` tokens. Keys and values are read once for all queries of a sequence."""
    config = footprint.shape.config
    window = config.windows[layer]
    seen = context if window is None else min(context, window)
    layer_kv_bytes, query_size = footprint.layer_kv_bytes(layer), config.head_count * config.heads(layer).head_size
    mean_seen = min(seen, context - (query_count - 1) / 2)
    query_bytes = 2 * query_size * footprint.item_bytes
    return Launch(
        sequence_count * (min(seen + query_count, context) * layer_kv_bytes + query_count * query_bytes),
        4.0 * sequence_count * query_count * mean_seen * query_size,
    )


def state_launch(footprint: Footprint, row_count: int, sequence_count: int) -> Launch:
    """Counts the recurrences of all layers that keep a state: each of `sequence_count` sequences reads and writes its
    own once, and each row decays it, is taken in and reads it. Nothing for models without."""
    numbers = footprint.state_bytes / ITEM_BYTES["float32"]
    return Launch(2.0 * sequence_count * footprint.state_bytes, 6.0 * row_count * numbers)
