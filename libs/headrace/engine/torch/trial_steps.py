"""Steps of a model before its first request: to compile what it launches, and to measure what it takes."""

from array import array
from collections.abc import Sequence

import torch

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.step_tensors import StepTensors
from headrace.engine.torch.device.device_copy import to_device

MAX_TOKENS = 1 << 20
"""Tokens of all texts in the largest step of decodes."""


def largest_steps(config: EngineConfig, max_len: int) -> list[StepArrays]:
    """Lays out the longest chunk of a prompt, and as many decodes as there may be, of long texts. Each has logits for
    as many rows as are ever sampled from."""
    row_count, chunk = config.max_running_count, _longest_chunk(config, max_len)
    length = max(1, min(max_len, MAX_TOKENS // row_count))
    return [
        in_block_0([(0, chunk)], config.block_size, range(max(0, chunk - row_count), chunk)),
        in_block_0([(length - 1, 1)] * row_count, config.block_size, range(row_count)),
    ]


def steps_of_all_sizes(config: EngineConfig, max_len: int) -> list[StepArrays]:
    """Lays out chunks and decodes of 1, 2, 4 and so on rows, as far as steps go: kernels are chosen by them."""
    chunk, row_count = _longest_chunk(config, max_len), config.max_running_count
    chunks = [in_block_0([(0, size)], config.block_size, [size - 1]) for size in _sizes_up_to(chunk) if size > 1]
    decodes = [in_block_0([(0, 1)] * size, config.block_size, range(size)) for size in _sizes_up_to(row_count)]
    return chunks + decodes


def run_trial(decoder: Decoder, attention: PagedAttention, arrays: StepArrays, device: torch.device) -> None:
    """Computes a step, and drops what comes out. A decoder without a head has no logits."""
    attention.begin(arrays)
    token_ids, logit_rows = (to_device(part.copy(), device) for part in (arrays.token_ids, arrays.logit_rows))
    decoder(StepTensors(token_ids, logit_rows), attention)


def _longest_chunk(config: EngineConfig, max_len: int) -> int:
    return min(config.max_step_token_count, max_len)


def _sizes_up_to(count: int) -> list[int]:
    return sorted({count, *(1 << power for power in range(count.bit_length()))})


def in_block_0(spans: Sequence[tuple[int, int]], block_size: int, logit_rows: Sequence[int]) -> StepArrays:
    """Lays out spans of token 0, each a first position and a token count. All their blocks are block 0, which holds
    nothing worth keeping."""
    token_ids, tables, fields = array("q"), array("q"), array("q")
    for start, count in spans:
        fields.extend((len(token_ids), count, start, len(tables)))
        token_ids.extend([0] * count)
        tables.extend([0] * -(-(start + count) // block_size))
    return StepArrays(token_ids, tables, fields, array("q", logit_rows))
