"""Sizes of heads of families that cut the hidden size into heads."""

from dataclasses import replace

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.errors.tree import InvalidCheckpoint


def split_evenly(config: DecoderConfig, kv_head_count: int) -> DecoderConfig:
    """Cuts the hidden size into heads, whatever other sizes config.json names, and has `kv_head_count` of keys and
    values. Raises InvalidCheckpoint where they do not divide it."""
    size, rest = divmod(config.hidden_size, max(1, config.head_count))
    if rest or size < 1:
        raise InvalidCheckpoint(
            f"config.json: num_attention_heads is {config.head_count}, which does not divide hidden_size, "
            f"{config.hidden_size}"
        )
    return replace(config, kv_head_count=kv_head_count, head_size=size, rotary_size=size, attention_scale=size**-0.5)
