"""The plan of attention through the kernels for GPUs."""

from collections.abc import Sequence

import torch

from headrace.engine.gpu.attention.paged_states import PagedStates
from headrace.engine.kernels.kv_arena import KvShape
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention, PagedAttention
from headrace.engine.torch.backends.attention_plan import AttentionPlan


def plan_on_triton(shape: KvShape, device: torch.device) -> AttentionPlan:
    """Plans attention over blocks of a shape, read and written in place."""

    def build(heads: HeadShape, layers: Sequence[LayerAttention], block_count: int) -> PagedAttention:
        # Imports Triton, which only GPUs need.
        from headrace.engine.gpu.attention.triton_attention import TritonAttention

        return TritonAttention(heads, layers, PagedStates(shape, block_count, device), device)

    return AttentionPlan((shape,), build)
