"""The tensors of a decoder, by their names in Hugging Face checkpoints. Each is read once.

Projections that share an input come as one matrix: query, key and value; gate and up.
"""

import math
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig, LatentSpace
from headrace.engine.checkpoints.facts.latent_config import LatentConfig
from headrace.engine.checkpoints.facts.rotary_pairs import turned_rows
from headrace.engine.checkpoints.layout.gated_rows import gated_rows, grouped_rows
from headrace.engine.checkpoints.layout.latent_rows import key_rows, query_rows
from headrace.engine.checkpoints.weights.model_tensors import ModelTensors

LAST_NORM, EMBEDDING_NORM = "model.norm", "model.embedding_norm"
PRE_MLP_NORM, POST_MLP_NORM = "pre_feedforward_layernorm", "post_feedforward_layernorm"
ArrayT = TypeVar("ArrayT")
WeightT = TypeVar("WeightT")


@dataclass(frozen=True, slots=True)
class Projection(Generic[ArrayT, WeightT]):
    """A matrix [out, in] and its bias [out], if it has one."""

    weight: WeightT
    bias: ArrayT | None = None


class DecoderWeights(Generic[ArrayT, WeightT]):
    """Reads the tensors that a DecoderConfig calls for, in the arrays of torch or numpy. Raises InvalidCheckpoint if
    they do not match it."""

    def __init__(self, config: DecoderConfig, tensors: ModelTensors[ArrayT, WeightT]) -> None:
        self._config = config
        self._tensors = tensors
        self.parameter_count = 0

    def embedding(self) -> ArrayT:
        return self._read("model.embed_tokens.weight", self._config.vocabulary_size, self._config.hidden_size)

    def embedding_matrix(self) -> WeightT:
        """Reads the embedding as products take it, for checkpoints that have it in blocks."""
        return self._matrix("model.embed_tokens", self._config.vocabulary_size, self._config.hidden_size)

    def head(self) -> Projection[ArrayT, WeightT]:
        """Reads the output head. Tied models have no separate tensor for it."""
        size = self._config.vocabulary_size
        weight = self._matrix("lm_head", size, self._config.hidden_size)
        return Projection(weight, self._read("lm_head.bias", size) if self._config.head_bias else None)

    def norm(self, name: str, size: int) -> ArrayT:
        """Reads the weight of a norm, in fp32 if an offset is added: the checkpoint's precision would lose it."""
        has_weight = name.rpartition(".")[2] not in self._config.blocks.weightless_norms
        weight = self._read(f"{name}.weight", size) if has_weight else self._tensors.ones(size)
        offset, factor = self._config.norm_offset, self._factor(name)
        raised = weight if offset == 0 else self._tensors.raised(weight, offset)
        return raised if factor == 1 else self._tensors.scaled(raised, factor)

    def norm_bias(self, name: str, size: int) -> ArrayT:
        """Reads the bias of a norm, in fp32 if it is scaled."""
        bias, factor = self._read(f"{name}.bias", size), self._factor(name)
        return bias if factor == 1 else self._tensors.scaled(bias, factor)

    def _factor(self, name: str) -> float:
        """Returns the factor of a norm's outputs. The last norm has that of the logits, which are linear in them."""
        return self._config.logit_scale if name == LAST_NORM else 1.0

    def learned_numbers(self, index: int) -> dict[str, ArrayT]:
        """Reads the numbers of a layer's xIELU, by name: `alpha_p` and `alpha_n` [1], `beta` and `eps` [] (Huang and
        Schlag, 2024)."""
        shapes: dict[str, tuple[int, ...]] = {"alpha_p": (1,), "alpha_n": (1,), "beta": (), "eps": ()}
        prefix = f"model.layers.{index}.mlp.act_fn"
        return {name: self._read(f"{prefix}.{name}", *shape) for name, shape in shapes.items()}

    def qkv(self, index: int) -> Projection[ArrayT, WeightT]:
        config, prefix = self._config, f"model.layers.{index}.self_attn"
        heads = config.heads(index)
        query_size, kv_size = config.head_count * heads.head_size, heads.kv_head_count * heads.head_size
        sizes = {"q_proj": query_size, **dict.fromkeys(_key_modules(config, index), kv_size)}
        if config.fused_qkv:
            sizes = {"qkv_proj": sum(sizes.values())}
        stored = self.projection(
            {f"{prefix}.{name}": size for name, size in sizes.items()}, config.hidden_size, has_bias=config.qkv_bias
        )
        rows = _stored_rows(config)
        if rows is None:
            return stored
        bias = None if stored.bias is None else self._tensors.picked(stored.bias, rows)
        return Projection(self._tensors.reordered(stored.weight, rows), bias)

    def gated_qkv(self, index: int) -> Projection[ArrayT, WeightT]:
        """Reads query, key and value projections of attention with gates, and behind them the gates of all heads.
        Checkpoints have the gate of each head after its query."""
        config, prefix = self._config, f"model.layers.{index}.self_attn"
        query_size, kv_size = config.head_count * config.head_size, config.kv_head_count * config.head_size
        sizes = {"q_proj": 2 * query_size, "k_proj": kv_size, "v_proj": kv_size}
        stored = self.projection(
            {f"{prefix}.{name}": size for name, size in sizes.items()}, config.hidden_size, has_bias=config.qkv_bias
        )
        rows = gated_rows(config)
        bias = None if stored.bias is None else self._tensors.picked(stored.bias, rows)
        return Projection(self._tensors.reordered(stored.weight, rows), bias)

    def attention_output(self, index: int) -> Projection[ArrayT, WeightT]:
        config = self._config
        sizes = {f"model.layers.{index}.self_attn.o_proj": config.hidden_size}
        in_size = config.head_count * config.heads(index).head_size
        return self.projection(sizes, in_size, has_bias=config.output_bias)

    def latent_query_down(self, index: int, rank: int) -> Projection[ArrayT, WeightT]:
        """Reads the product from hidden states to the latent vector of queries."""
        config = self._config
        sizes = {f"model.layers.{index}.self_attn.q_a_proj": rank}
        return self.projection(sizes, config.hidden_size, has_bias=config.qkv_bias)

    def latent_queries(self, index: int, latent: LatentConfig) -> Projection[ArrayT, WeightT]:
        """Reads the product that makes queries, in the order of `query_rows`."""
        heads, prefix = self._config.head_count, f"model.layers.{index}.self_attn"
        name = "q_proj" if latent.query_rank is None else "q_b_proj"
        in_size = latent.query_rank or self._config.hidden_size
        weight = self._matrix(f"{prefix}.{name}", heads * latent.query_size, in_size)
        return Projection(self._tensors.reordered(weight, query_rows(latent, heads)))

    def latent_keys(self, index: int, latent: LatentConfig) -> Projection[ArrayT, WeightT]:
        """Reads the product that makes the key of all heads, in the order of `key_rows`."""
        sizes, rows = {f"model.layers.{index}.self_attn.kv_a_proj_with_mqa": latent.head_size}, key_rows(latent)
        stored = self.projection(sizes, self._config.hidden_size, has_bias=self._config.qkv_bias)
        bias = None if stored.bias is None else self._tensors.picked(stored.bias, rows)
        return Projection(self._tensors.reordered(stored.weight, rows), bias)

    def latent_up(self, index: int, latent: LatentConfig) -> WeightT:
        """Reads the products from the latent vector to the keys and values of each head, keys before values."""
        out_size = self._config.head_count * (latent.still_size + latent.value_size)
        return self._matrix(f"model.layers.{index}.self_attn.kv_b_proj", out_size, latent.kv_rank)

    def latent_output(self, index: int, latent: LatentConfig) -> Projection[ArrayT, WeightT]:
        config = self._config
        sizes = {f"model.layers.{index}.self_attn.o_proj": config.hidden_size}
        return self.projection(sizes, config.head_count * latent.value_size, has_bias=config.output_bias)

    def gate_up(self, index: int) -> Projection[ArrayT, WeightT]:
        names = ("gate_up_proj",) if self._config.fused_gate_up else ("gate_proj", "up_proj")
        return self.gate_up_of(f"model.layers.{index}.mlp", names, self._config.inner_size(index))

    def up(self, index: int) -> Projection[ArrayT, WeightT]:
        """Reads the first product of a feed-forward block without gates."""
        config = self._config
        return self._up_of(f"model.layers.{index}.mlp", "up_proj", config.intermediate_size, config.hidden_size)

    def down(self, index: int) -> Projection[ArrayT, WeightT]:
        return self.down_of(f"model.layers.{index}.mlp", "down_proj", self._config.inner_size(index))

    def gate_up_of(
        self, prefix: str, names: tuple[str, ...], inner: int, width: int | None = None
    ) -> Projection[ArrayT, WeightT]:
        """Reads gate and up projections as one matrix. `names` are the two projections, or one fused projection.
        `width`: the size of the block's inputs. None: that of hidden states."""
        sizes = {f"{prefix}.{name}": 2 * inner // len(names) for name in names}
        return self.projection(sizes, width or self._config.hidden_size, has_bias=self._config.mlp_bias)

    def expert(
        self, prefix: str, experts: ExpertConfig, name: str, inner: int
    ) -> tuple[Projection[ArrayT, WeightT], Projection[ArrayT, WeightT]]:
        """Reads the two products of an expert: its gates and ups as one matrix, or its ups alone, and its downs."""
        module, width = f"{prefix}.{name}", experts.width(name, self._config.hidden_size)
        if experts.is_gated:
            first = self.gate_up_of(module, experts.gate_up_names(name), inner, width)
        else:
            first = self._up_of(module, experts.projections[1], inner, width)
        return first, self.down_of(module, experts.projections[2], inner, width)

    def latent_space(
        self, prefix: str, latent: LatentSpace
    ) -> tuple[Projection[ArrayT, WeightT], Projection[ArrayT, WeightT]]:
        """Reads the products before and behind experts that compute within a latent vector."""
        size, has_bias = self._config.hidden_size, self._config.mlp_bias
        down = self.projection({f"{prefix}.{latent.down}": latent.size}, size, has_bias=has_bias)
        return down, self.projection({f"{prefix}.{latent.up}": size}, latent.size, has_bias=has_bias)

    def down_of(self, prefix: str, name: str, inner: int, width: int | None = None) -> Projection[ArrayT, WeightT]:
        """Reads a down projection. `width`: the size of the block's outputs. None: that of hidden states."""
        sizes = {f"{prefix}.{name}": width or self._config.hidden_size}
        return self.projection(sizes, inner, has_bias=self._config.mlp_bias)

    def router(self, prefix: str, experts: ExpertConfig) -> Projection[ArrayT, WeightT]:
        """Reads the product that scores experts, and the gate of the shared one as its last row."""
        sizes = {f"{prefix}.{name}": size for name, size in experts.router_rows.items()}
        return self.projection(sizes, self._config.hidden_size, has_bias=experts.has_router_bias)

    def sinks(self, index: int) -> ArrayT:
        """Reads the scores [heads] that softmax counts beside those of keys."""
        self.parameter_count += self._config.head_count
        return self._tensors.precise(f"model.layers.{index}.self_attn.sinks", (self._config.head_count,))

    def router_bias(self, prefix: str, experts: ExpertConfig) -> ArrayT:
        """Reads the numbers [experts], or [1, experts], that the choice of experts adds to their scores."""
        rows = (experts.routing.bias_row_count,) if experts.routing.bias_row_count else ()
        self.parameter_count += experts.count
        return self._tensors.precise(f"{prefix}.{experts.routing.bias_name}", (*rows, experts.count))

    def vector(self, name: str, *shape: int) -> ArrayT:
        """Reads a tensor that is no matrix of a product."""
        return self._read(name, *shape)

    def table(self, name: str, *shape: int) -> ArrayT:
        """Reads a table in the checkpoint's precision, of which a step reads few rows."""
        self.parameter_count += math.prod(shape)
        return self._tensors.stored(name, shape, self._config.precision)

    def projection(self, out_sizes: dict[str, int], in_size: int, *, has_bias: bool) -> Projection[ArrayT, WeightT]:
        """Reads several modules that share an input as one matrix, in the given order."""
        weight = self._tensors.stack([self._matrix(name, size, in_size) for name, size in out_sizes.items()])
        if not has_bias:
            return Projection(weight)
        biases = [self._read(f"{name}.bias", size) for name, size in out_sizes.items()]
        return Projection(weight, self._tensors.join(biases))

    def reordered(
        self, projection: Projection[ArrayT, WeightT], rows: NDArray[np.int64]
    ) -> Projection[ArrayT, WeightT]:
        """Takes the given rows of a projection without a bias, in this order."""
        return Projection(self._tensors.reordered(projection.weight, rows))

    def numbers(self, name: str, *shape: int) -> ArrayT:
        """Reads numbers that are no matrix of a product, in fp32."""
        self.parameter_count += math.prod(shape)
        return self._tensors.precise(name, shape)

    def _up_of(self, prefix: str, name: str, inner: int, width: int) -> Projection[ArrayT, WeightT]:
        return self.projection({f"{prefix}.{name}": inner}, width, has_bias=self._config.mlp_bias)

    def _matrix(self, name: str, out_size: int, in_size: int) -> WeightT:
        """Reads a matrix in whatever form the checkpoint stores it."""
        self.parameter_count += out_size * in_size
        return self._tensors.matrix(name, (out_size, in_size))

    def _read(self, name: str, *shape: int) -> ArrayT:
        self.parameter_count += math.prod(shape)
        return self._tensors.read(name, shape)


def layer_norms(config: DecoderConfig) -> tuple[str, ...]:
    """Names the norms of a layer's inputs and outputs. Without norms after blocks, Hugging Face names the norm before
    the second block after the first."""
    before, after = ("input_layernorm", "post_attention_layernorm"), ("post_attention_layernorm", POST_MLP_NORM)
    if config.blocks.is_parallel or config.blocks.has_single_blocks:
        return before if config.blocks.has_two_norms else before[:1]
    if not config.blocks.normalizes_inputs:
        return after
    return (*before, PRE_MLP_NORM, POST_MLP_NORM) if config.post_norms else before


def query_key_norms(config: DecoderConfig, index: int = 0) -> dict[str, int]:
    """Returns the names and sizes of the norms of a layer's queries and keys."""
    if (varied := config.blocks.varied) is not None:
        size = varied.heads[index].head_size
        return {"q_norm": size, "k_norm": size} if varied.has_keys(index) else {"q_norm": size}
    if config.blocks.normalizes_whole_heads:
        return {"q_norm": config.head_count * config.head_size, "k_norm": config.kv_head_count * config.head_size}
    if config.blocks.norms_rotated_alone and index in config.unrotated_layers:
        return {}
    return {"q_norm": config.head_size, "k_norm": config.head_size} if config.query_key_norm else {}


def _key_modules(config: DecoderConfig, index: int) -> tuple[str, ...]:
    """Names the products that make a layer's keys and values."""
    varied = config.blocks.varied
    if varied is not None and not varied.has_keys(index):
        return ()
    return ("k_proj",) if varied is not None and index in varied.keys_as_values else ("k_proj", "v_proj")


def _stored_rows(config: DecoderConfig) -> NDArray[np.int64] | None:
    """Returns the row in a checkpoint of each row of queries, keys and values. None: they are in this order there."""
    grouped = grouped_rows(config) if config.groups_qkv else None
    if not config.pairs_neighbors and not config.turns_backwards:
        return grouped
    turned = turned_rows(config)
    return turned if grouped is None else grouped[turned]
