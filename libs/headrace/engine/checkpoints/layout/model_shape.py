"""Products and tables of a decoder, from its config.json alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.checkpoints.layout.decoder_weights import (
    EMBEDDING_NORM,
    LAST_NORM,
    DecoderWeights,
    layer_norms,
    query_key_norms,
)
from headrace.engine.checkpoints.layout.state_layers import read_mixer
from headrace.engine.checkpoints.layout.varied_products import layer_products, shared_products

Module = tuple[str, int, int]
"""Name, outputs and inputs of a matrix."""
HEAD = "lm_head"


@dataclass(frozen=True, slots=True)
class Product:
    """Matrices [out, in] that a step multiplies by the same inputs."""

    modules: tuple[Module, ...]
    copies: int = 1
    """Experts that each have such matrices."""
    chosen: int = 1
    """Experts that each token computes with."""

    @property
    def out_size(self) -> int:
        return sum(out_size for _, out_size, _ in self.modules)

    @property
    def in_size(self) -> int:
        return self.modules[0][2]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder without content."""

    config: DecoderConfig
    products: tuple[Product, ...]
    """Products of a step in order, the head last."""
    tensor_size: int
    """Elements of all tensors that are not matrices of `products`: the embedding, norms, biases."""

    @property
    def parameter_count(self) -> int:
        """Parameters held. A tied head is part of the embedding."""
        tied = self.products[-1].out_size * self.products[-1].in_size if self.config.tied_embeddings else 0
        return self.tensor_size - tied + sum(p.copies * p.out_size * p.in_size for p in self.products)


class _Shapes:
    """Tensors without content, see ModelTensors."""

    def read(self, name: str, shape: tuple[int, ...]) -> None:
        return None

    def precise(self, name: str, shape: tuple[int, ...]) -> None:
        return None

    def stored(self, name: str, shape: tuple[int, ...], precision: str) -> None:
        return None

    def matrix(self, name: str, shape: tuple[int, int]) -> tuple[Module, ...]:
        return ((name, *shape),)

    def stack(self, weights: Sequence[tuple[Module, ...]]) -> tuple[Module, ...]:
        return tuple(module for weight in weights for module in weight)

    def ones(self, size: int) -> None:
        return None

    def join(self, vectors: Sequence[None]) -> None:
        return None

    def raised(self, vector: None, offset: float) -> None:
        return None

    def scaled(self, vector: None, factor: float) -> None:
        return None

    def reordered(self, weight: tuple[Module, ...], rows: NDArray[np.int64]) -> tuple[Module, ...]:
        return weight

    def picked(self, vector: None, places: NDArray[np.int64]) -> None:
        return None


def model_shape(config: DecoderConfig) -> ModelShape:
    """Lists what a decoder of this configuration reads and multiplies."""
    weights = DecoderWeights[None, tuple[Module, ...]](config, _Shapes())
    weights.embedding()
    _norm(weights, config, LAST_NORM)
    if config.blocks.normalizes_embedding:
        _norm(weights, config, EMBEDDING_NORM)
    products = [Product(modules) for modules in shared_products(weights, config)]
    products += [product for index in range(config.layer_count) for product in _layer(weights, config, index)]
    head = ((HEAD, config.vocabulary_size, config.hidden_size),)
    if not config.tied_embeddings:
        weights.head()
    counted = sum(p.out_size * p.in_size for p in products)
    tensor_size = weights.parameter_count - counted - (0 if config.tied_embeddings else _size(head))
    return ModelShape(config, (*products, Product(head)), tensor_size)


def _layer(weights: DecoderWeights[None, tuple[Module, ...]], config: DecoderConfig, index: int) -> Iterator[Product]:
    prefix = f"model.layers.{index}"
    for name in layer_norms(config):
        _norm(weights, config, f"{prefix}.{name}")
    if config.blocks.has_learned_activation:
        weights.learned_numbers(index)
    if config.mixes(index):
        yield from _mixer(weights, config, index)
    if not config.feeds(index):
        return
    experts = config.experts
    if experts is None or index in experts.dense_layers or config.blocks.adds_experts:
        yield Product((weights.gate_up(index) if config.blocks.is_gated else weights.up(index)).weight)
        yield Product(weights.down(index).weight)
    if experts is not None and index not in experts.dense_layers:
        yield from _experts(weights, config, f"{prefix}.{experts.module}", experts)
    yield from (Product(modules) for modules in layer_products(weights, config, index))


def _mixer(weights: DecoderWeights[None, tuple[Module, ...]], config: DecoderConfig, index: int) -> Iterator[Product]:
    """Yields the products of attention, or of what a layer has in its place."""
    states = config.blocks.states
    if states is not None and index in states.layers:
        for part in read_mixer(weights, states.mixer, index, config.hidden_size).products:
            yield Product(part.weight)
        if index not in states.attention_layers:
            return
    for name, size in query_key_norms(config, index).items():
        weights.norm(f"model.layers.{index}.self_attn.{name}", size)
    yield Product((weights.gated_qkv if config.blocks.gates_attention else weights.qkv)(index).weight)
    yield Product(weights.attention_output(index).weight)


def _norm(weights: DecoderWeights[None, tuple[Module, ...]], config: DecoderConfig, name: str) -> None:
    weights.norm(name, config.hidden_size)
    if config.blocks.biased_norms:
        weights.norm_bias(name, config.hidden_size)


def _experts(
    weights: DecoderWeights[None, tuple[Module, ...]], config: DecoderConfig, prefix: str, experts: ExpertConfig
) -> Iterator[Product]:
    yield Product(weights.router(prefix, experts).weight)
    if experts.routing.bias_name:
        weights.router_bias(prefix, experts)
    if experts.latent is not None:
        for part in weights.latent_space(prefix, experts.latent):
            yield Product(part.weight)
    for part in weights.expert(prefix, experts, "experts.0", experts.intermediate_size):
        yield Product(part.weight, experts.count, experts.routing.chosen_count)
    if experts.shared is not None:
        for part in weights.expert(prefix, experts, experts.shared.module, experts.shared.intermediate_size):
            yield Product(part.weight)


def _size(modules: tuple[Module, ...]) -> int:
    return sum(out_size * in_size for _, out_size, in_size in modules)
