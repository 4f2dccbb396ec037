"""Program of contests: sizes, and everything that is measured at them."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tests.benchmarks.gpu.attention_contests import AttentionSize, list_decodes, list_prefills
from tests.benchmarks.gpu.contest import Contest
from tests.benchmarks.gpu.product_contests import ProductSize, list_products
from tests.benchmarks.gpu.row_contests import list_rows


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of all contests."""

    products: tuple[ProductSize, ...]
    row_counts: tuple[int, ...]
    attention: AttentionSize
    batches: tuple[int, ...]
    context: int
    """Tokens that each decode sees."""
    prompts: tuple[int, ...]
    """Lengths of prompts."""


CARD_SIZES = Sizes(
    products=(ProductSize(6144, 4096), ProductSize(28672, 4096), ProductSize(4096, 14336)),
    row_counts=(1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    attention=AttentionSize(32, 8, 128),
    batches=(1, 8, 32, 64),
    context=2048,
    prompts=(128, 512, 2048),
)
"""Sizes of a layer of Llama 3.1 8B."""


def list_contests(sizes: Sizes, device: torch.device) -> Iterator[Contest]:
    """Makes each contest when its turn comes, so that only one is in memory."""
    for size in sizes.products:
        yield from list_products(size, sizes.row_counts, device)
    yield from list_decodes(sizes.attention, sizes.batches, sizes.context, device)
    yield from list_prefills(sizes.attention, sizes.prompts, device)
    hidden = sizes.products[0].in_size
    yield from list_rows(hidden, sizes.products[-1].in_size, sizes.row_counts, device)
