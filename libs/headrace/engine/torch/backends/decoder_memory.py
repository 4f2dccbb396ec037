"""Builds the memory of a decoder: its KV cache, and the states that some layers keep beside it."""

import torch

from headrace.engine.contract.state_slots import StateSlots
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.attention_plan import AttentionPlan
from headrace.engine.torch.backends.no_attention import NoAttention
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.states.state_arena import StateArena
from headrace.engine.torch.decoder.states.stateful_attention import StatefulAttention


def build_memory(
    plan: AttentionPlan, decoder: Decoder, max_len: int, block_count: int, slots: StateSlots, device: torch.device
) -> PagedAttention:
    """Builds attention over so many KV blocks, with `slots` for states where the decoder keeps some. Raises ConfigError
    for an unsupported block size."""
    if decoder.states is None:
        return plan.build(decoder.heads, decoder.attentions(max_len), block_count)
    attention: PagedAttention = NoAttention(block_count)
    if decoder.states.attention_layers:
        attention = plan.build(decoder.heads, decoder.attentions(max_len), block_count)
    return StatefulAttention(attention, StateArena(decoder.states, slots, device))
