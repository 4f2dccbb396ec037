"""GGUF's architectures of families with layers that keep a state, see `gguf_architecture.py`."""

from collections.abc import Mapping
from typing import Any

from headrace.engine.checkpoints.gguf.gguf_architecture import LAYER_NAMES, GgufArchitecture
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata

_NAMES = {
    **LAYER_NAMES,
    "conv.in_proj": "shortconv.in_proj",
    "conv.conv": "shortconv.conv",
    "conv.out_proj": "shortconv.out_proj",
}


def _lfm2(metadata: GgufMetadata) -> Mapping[str, Any]:
    """Reads which layers attend off their numbers of KV heads: the others have none. Feed-forward blocks have the size
    that the file says."""
    counts = metadata.integers("attention.head_count_kv")
    layers = counts * (metadata.integer("block_count") if len(counts) == 1 else 1)
    return {
        "num_key_value_heads": max(counts),
        "layer_types": ["full_attention" if count else "conv" for count in layers],
        "conv_L_cache": metadata.integer("shortconv.l_cache"),
        "block_auto_adjust_ff_dim": False,
        "norm_eps": metadata.number("attention.layer_norm_rms_epsilon"),
    }


STATE_ARCHITECTURES = {
    "lfm2": GgufArchitecture("Lfm2ForCausalLM", _NAMES, top_names={"model.norm": "token_embd_norm"}, describe=_lfm2),
}
"""Architectures by their GGUF names."""
