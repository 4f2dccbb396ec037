"""Builds the parts of a decoder from a checkpoint's tensors."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import NormalDist

import torch
from torch import Tensor

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, LatentSpace
from headrace.engine.checkpoints.layout.decoder_weights import (
    EMBEDDING_NORM,
    DecoderWeights,
    Projection,
    query_key_norms,
)
from headrace.engine.checkpoints.layout.model_shape import HEAD
from headrace.engine.checkpoints.packing.loaded_weight import place_rounded
from headrace.engine.checkpoints.packing.weight_forms import AS_READ, WeightForms
from headrace.engine.checkpoints.weight_source import WeightSource
from headrace.engine.checkpoints.weights.block_matrix import BlockMatrix
from headrace.engine.checkpoints.weights.quantized_matrix import Weight, plain
from headrace.engine.torch.attention.token_mixer import TokenMixer
from headrace.engine.torch.decoder.decoder_layer import (
    DecoderLayer,
    FeedingLayer,
    MixingLayer,
    ParallelLayer,
    PostNormLayer,
    PreNormLayer,
    SandwichNormLayer,
)
from headrace.engine.torch.decoder.input_layer import InputLayer
from headrace.engine.torch.decoder.mixers.gated_attention import GatedAttention
from headrace.engine.torch.decoder.mixers.parallel_mixer import ParallelMixer
from headrace.engine.torch.decoder.mixers.scaled_linear import scaled
from headrace.engine.torch.decoder.mixers.state_reader import StateReader
from headrace.engine.torch.decoder.self_attention import SelfAttention
from headrace.engine.torch.decoder.stream_layer import StreamLayer
from headrace.engine.torch.decoder.token_embedding import BlockEmbedding, PlainEmbedding, TokenEmbedding
from headrace.engine.torch.decoder.torch_tensors import TorchTensors
from headrace.engine.torch.latent.latent_experts import LatentExperts
from headrace.engine.torch.latent.latent_reader import LatentReader
from headrace.engine.torch.layers.expert_choice import OutputChoice, SparseMixer
from headrace.engine.torch.layers.expert_mlp import ExpertMlp, Mixture
from headrace.engine.torch.layers.feed_forward import FeedForward
from headrace.engine.torch.layers.gated_mlp import GatedMlp, Mlp
from headrace.engine.torch.layers.learned_activation import LearnedActivation
from headrace.engine.torch.layers.linear import Linear
from headrace.engine.torch.layers.whole_norm import WholeNormLinear
from headrace.engine.torch.operators.operators import Operators, RowNorm
from headrace.engine.torch.varied.hidden_streams import HiddenStreams
from headrace.engine.torch.varied.scaled_route import ScaledRoute
from headrace.engine.torch.varied.sparse_gate import SparseGate
from headrace.engine.torch.varied.stream_reader import StreamReader
from headrace.engine.torch.varied.token_inputs import TokenInputs
from headrace.engine.torch.varied.varied_reader import VariedReader
from headrace.errors.tree import InvalidCheckpoint

Route = Callable[[Tensor], tuple[Tensor, Tensor]]
TorchProjection = Projection[Tensor, Weight]


def unchanged(inputs: Tensor) -> Tensor:
    """Returns hidden states that a block normalizes on its own."""
    return inputs


class DecoderReader:
    """Reads each tensor once. Raises InvalidCheckpoint if they do not fit."""

    def __init__(
        self,
        config: DecoderConfig,
        weights: WeightSource,
        operators: Operators,
        dtype: torch.dtype,
        device: torch.device,
        forms: WeightForms = AS_READ,
    ) -> None:
        self._config = config
        self._forms = forms
        self._operators = operators
        self._device = device
        self._weights = DecoderWeights(config, TorchTensors(weights, dtype, device))
        self._varied = VariedReader(config, self._weights, operators)
        facts = config.blocks.streams
        self._streams = None if facts is None else StreamReader(config, facts, self._weights, operators)

    @property
    def parameter_count(self) -> int:
        return self._weights.parameter_count

    def embedding(self) -> TokenEmbedding:
        """Reads the table of the tokens' inputs, in blocks where the file has it so and products take them."""
        weight = self._weights.embedding_matrix() if self._forms.keeps_blocks else self._weights.embedding()
        return BlockEmbedding(weight) if isinstance(weight, BlockMatrix) else PlainEmbedding(plain(weight))

    def head(self, embedding: TokenEmbedding, rows: slice = slice(None)) -> Linear:
        """Builds the output head. Tied models reuse `rows` of their embedding."""
        if self._config.tied_embeddings:
            return self._operators.linear(self._rounded(embedding.head(rows)))
        head = self._weights.head()
        return self._operators.linear(self._rounded(head.weight), head.bias)

    def norm(self, name: str) -> RowNorm:
        config, size = self._config, self._config.hidden_size
        weight = self._weights.norm(name, size)
        if not config.blocks.centers_norms:
            return self._operators.rms_norm(weight, config.rms_norm_epsilon)
        bias = self._weights.norm_bias(name, size).to(weight.dtype) if config.blocks.biased_norms else None
        shift = torch.zeros_like(weight) if bias is None else bias
        return self._operators.layer_norm(weight, shift, config.rms_norm_epsilon)

    def embedding_norm(self) -> RowNorm | None:
        """Reads the norm of the tokens' inputs, if the model has one."""
        return self.norm(EMBEDDING_NORM) if self._config.blocks.normalizes_embedding else None

    def head_norms(self, index: int) -> tuple[Tensor | None, Tensor | None]:
        """Reads the weights [head] that normalize a layer's query and key heads, if it has them."""
        norms = self._query_key_norms(index) if self._config.query_key_norm else []
        return (norms[0], norms[1]) if norms else (None, None)

    def sinks(self, index: int) -> Tensor | None:
        """Reads the scores fp32 [heads] that softmax counts beside those of keys, if the layer has them."""
        return self._weights.sinks(index) if self._config.has_sinks else None

    def token_inputs(self) -> TokenInputs | None:
        """Reads what makes the inputs that each layer has of its own, if the model has them."""
        return self._varied.token_inputs()

    def streams(self) -> HiddenStreams | None:
        """Reads what makes streams of hidden states, and merges them, if the model has several."""
        return None if self._streams is None else self._streams.streams()

    def _query_key_norms(self, index: int) -> list[Tensor]:
        prefix = f"model.layers.{index}.self_attn"
        sizes = query_key_norms(self._config, index)
        return [self._weights.norm(f"{prefix}.{name}", size) for name, size in sizes.items()]

    def layer(self, index: int) -> DecoderLayer:
        prefix = f"model.layers.{index}"
        if self._config.blocks.has_single_blocks:
            norm = self.norm(f"{prefix}.input_layernorm")
            mixes = self._config.mixes(index)
            return MixingLayer(norm, self._attention(index)) if mixes else FeedingLayer(norm, self._feed_forward(index))
        if self._config.blocks.is_parallel:
            has_two = self._config.blocks.has_two_norms
            mlp_norm = self.norm(f"{prefix}.post_attention_layernorm") if has_two else None
            norm = self.norm(f"{prefix}.input_layernorm")
            return ParallelLayer(norm, self._attention(index), self._feed_forward(index), mlp_norm)
        if not self._config.blocks.normalizes_inputs:
            return PostNormLayer(
                self._attention(index),
                self.norm(f"{prefix}.post_attention_layernorm"),
                self._feed_forward(index),
                self.norm(f"{prefix}.post_feedforward_layernorm"),
            )
        if self._streams is not None:
            return self._stream_layer(index, self._streams)
        attention_norm = self.norm(f"{prefix}.input_layernorm")
        attention = self._attention(index)
        post_attention_norm = self.norm(f"{prefix}.post_attention_layernorm")
        mlp = self._feed_forward(index)
        if not self._config.post_norms:
            return PreNormLayer(attention_norm, attention, mlp_norm=post_attention_norm, mlp=mlp)
        adds_experts = self._config.blocks.adds_experts
        layer = SandwichNormLayer(
            attention_norm,
            attention,
            post_attention_norm,
            mlp_norm=unchanged if adds_experts else self.norm(f"{prefix}.pre_feedforward_layernorm"),
            mlp=mlp,
            post_mlp_norm=self.norm(f"{prefix}.post_feedforward_layernorm"),
        )
        if not self._config.blocks.scales_layers:
            return layer
        return InputLayer(layer, self._varied.input_block(index), self._varied.layer_scale(index))

    def _stream_layer(self, index: int, streams: StreamReader) -> StreamLayer:
        prefix, block = f"model.layers.{index}", self._varied.input_block(index)
        if block is None:
            raise InvalidCheckpoint("layers with streams need inputs of their own, which config.json does not have")
        return StreamLayer(
            streams.update(index),
            self.norm(f"{prefix}.input_layernorm"),
            streams.low_rank(index),
            self._attention(index),
            self.norm(f"{prefix}.post_attention_layernorm"),
            self.norm(f"{prefix}.pre_feedforward_layernorm"),
            self._feed_forward(index),
            self.norm(f"{prefix}.post_feedforward_layernorm"),
            streams.output_scale(index),
            block,
        )

    def _attention(self, index: int) -> TokenMixer:
        states = self._config.blocks.states
        if states is None or index not in states.layers:
            return self._self_attention(index)
        mixer = StateReader(self._config, states, self._weights, self._operators).read(index)
        return ParallelMixer(mixer, self._self_attention(index)) if index in states.attention_layers else mixer

    def _self_attention(self, index: int) -> TokenMixer:
        place = self._config.kv_layers.index(index)
        if (latent := self._config.blocks.latent) is not None:
            return SelfAttention(place, *LatentReader(self._config, latent, self._weights, self._operators).read(index))
        if self._config.blocks.varied is not None:
            heads = self._varied.heads(index)
            return SelfAttention(index, heads, self._linear(self._weights.attention_output(index)))
        if self._config.blocks.gates_attention:
            gated, output = self._weights.gated_qkv(index), self._weights.attention_output(index)
            size = self._config.head_count * self._config.head_size
            return GatedAttention(place, self._linear(gated), self._linear(output), size)
        qkv, output = self._weights.qkv(index), self._weights.attention_output(index)
        factors = self._config.blocks.factors
        behind = self._linear(output) if factors is None else self._scaled(self._linear(output), factors.attention)
        return SelfAttention(place, self._whole_norms(index, self._linear(qkv)), behind)

    def _whole_norms(self, index: int, qkv: Linear) -> Linear:
        """Adds the norms of whole queries and keys to their projection, where the model has them."""
        config = self._config
        if not config.blocks.normalizes_whole_heads:
            return qkv
        weights = self._query_key_norms(index)
        query, key = (self._operators.rms_norm(weight, config.rms_norm_epsilon) for weight in weights)
        return WholeNormLinear(qkv, query, key, *(len(weight) for weight in weights))

    def _feed_forward(self, index: int) -> Mlp:
        experts = self._config.experts
        if experts is not None and self._config.blocks.adds_experts:
            own = self._mlp(self._weights.gate_up(index), self._weights.down(index))
            return self._varied.expert_addition(index, own, self._expert_mlp(index, experts))
        if experts is not None and index not in experts.dense_layers:
            latent = experts.latent
            return self._expert_mlp(index, experts) if latent is None else self._latent(index, experts, latent)
        if self._config.blocks.is_gated:
            mlp = self._mlp(self._weights.gate_up(index), self._weights.down(index))
            share = self._config.blocks.zero_shares[index] if self._config.blocks.zero_shares else 0.0
            if share:
                return replace(mlp, gate=SparseGate(mlp.gate, NormalDist().inv_cdf(share)))
            return self._with_factors(mlp)
        return self._plain_block(self._weights.up(index), self._weights.down(index), index)

    def _plain_block(self, up: TorchProjection, down: TorchProjection, index: int) -> FeedForward:
        return FeedForward(self._linear(up), self._linear(down), self._activation(index))

    def _activation(self, index: int) -> Callable[[Tensor], Tensor]:
        if self._config.blocks.has_learned_activation:
            return LearnedActivation.of(self._weights.learned_numbers(index))
        return partial(self._operators.activate, activation=self._config.activation)

    def _latent(self, index: int, experts: ExpertConfig, latent: LatentSpace) -> LatentExperts:
        prefix, shared = f"model.layers.{index}.{experts.module}", experts.shared
        down, up = (self._linear(product) for product in self._weights.latent_space(prefix, latent))
        beside = None if shared is None else self._expert(index, experts, shared.module, shared.intermediate_size)
        return LatentExperts(down, self._expert_mlp(index, replace(experts, shared=None)), up, beside)

    def _expert(self, index: int, experts: ExpertConfig, name: str, inner: int) -> Mlp:
        first, down = self._weights.expert(f"model.layers.{index}.{experts.module}", experts, name, inner)
        return self._mlp(first, down) if experts.is_gated else self._plain_block(first, down, index)

    def _expert_mlp(self, index: int, experts: ExpertConfig) -> Mixture:
        prefix = f"model.layers.{index}.{experts.module}"
        bias = self._weights.router_bias(prefix, experts).flatten() if experts.routing.bias_name else None
        router = self._linear(self._weights.router(prefix, experts))
        parts = [self._expert(index, experts, name, inner) for name, inner in experts.experts]
        route: Route = partial(self._operators.route, experts=experts, bias=bias)
        if experts.routing.sparse_share:
            route = SparseMixer(self._operators.route, experts)
        if experts.routing.ranks_outputs:
            route = OutputChoice(self._operators.route, experts)
        if self._config.blocks.adds_experts:
            route = ScaledRoute(route, self._varied.expert_scales(index))
        mixture = ExpertMlp(router, parts, experts.place_count, route, experts.routing.scales_inputs)
        if mixture.scales_inputs or not experts.is_gated:
            return mixture
        return self._operators.experts(mixture, self._config.activation)

    def _mlp(self, gate_up: TorchProjection, down: TorchProjection) -> GatedMlp:
        gate = partial(self._operators.gate, activation=self._config.activation)
        return GatedMlp(self._linear(gate_up), self._linear(down), gate)

    def _with_factors(self, mlp: GatedMlp) -> GatedMlp:
        factors, size = self._config.blocks.factors, self._config.intermediate_size
        if factors is None:
            return mlp
        gates = torch.tensor([factors.gate] * size + [1.0] * size, device=self._device)
        return replace(mlp, gate_up=scaled(mlp.gate_up, gates), down=self._scaled(mlp.down, factors.down))

    def _scaled(self, linear: Linear, factor: float) -> Linear:
        return scaled(linear, torch.tensor(factor, device=self._device))

    def _rounded(self, head: Weight) -> Weight:
        if not isinstance(head, Tensor):
            return head
        return place_rounded(HEAD, head, self._forms.head_bits, head.dtype, self._device)

    def _linear(self, projection: TorchProjection) -> Linear:
        return self._operators.linear(projection.weight, projection.bias)
