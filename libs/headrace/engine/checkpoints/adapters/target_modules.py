"""The modules of a decoder that adapters may change, by their Hugging Face names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig

Product = Literal["qkv", "output", "gate_up", "down"]
"""Name of a product in a decoder layer."""


@dataclass(frozen=True, slots=True)
class TargetModule:
    """A linear module, and the place of its outputs in our fused product."""

    layer: int
    product: Product
    columns: slice
    product_size: int
    """Columns of the whole product, including other modules'."""
    in_size: int

    @property
    def out_size(self) -> int:
        return int(self.columns.stop - self.columns.start)


def target_modules(config: DecoderConfig) -> dict[str, TargetModule]:
    """Returns the modules by name, such as model.layers.0.self_attn.q_proj. Excludes experts and their routers."""
    return {name: target for layer in range(config.layer_count) for name, target in _of_layer(config, layer)}


def _of_layer(config: DecoderConfig, layer: int) -> Iterator[tuple[str, TargetModule]]:
    hidden, inner = config.hidden_size, config.intermediate_size
    query, kv = config.head_count * config.head_size, config.kv_head_count * config.head_size
    qkv = {"q_proj": query, "k_proj": kv, "v_proj": kv}
    gate_up = {"gate_proj": inner, "up_proj": inner}
    if config.fused_qkv:
        qkv = {"qkv_proj": query + 2 * kv}
    if config.fused_gate_up:
        gate_up = {"gate_up_proj": 2 * inner}
    attention, mlp = f"model.layers.{layer}.self_attn", f"model.layers.{layer}.mlp"
    yield from _side_by_side(layer, "qkv", attention, qkv, hidden)
    yield from _side_by_side(layer, "output", attention, {"o_proj": hidden}, query)
    if config.experts is None or layer in config.experts.dense_layers:
        yield from _side_by_side(layer, "gate_up", mlp, gate_up, hidden)
        yield from _side_by_side(layer, "down", mlp, {"down_proj": hidden}, inner)


def _side_by_side(
    layer: int, product: Product, prefix: str, sizes: dict[str, int], in_size: int
) -> Iterator[tuple[str, TargetModule]]:
    """Yields the modules computed as one product, in column order."""
    start = 0
    for name, size in sizes.items():
        yield f"{prefix}.{name}", TargetModule(layer, product, slice(start, start + size), sum(sizes.values()), in_size)
        start += size
