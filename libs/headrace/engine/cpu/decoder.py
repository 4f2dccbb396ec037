"""A decoder that runs each step in one kernel call. Computes the same function as `Decoder`."""

import ctypes
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.checkpoints.facts.layer_angles import layer_angles
from headrace.engine.checkpoints.packing.packed_routing import pack_routing
from headrace.engine.cpu.adapters.packed_adapters import PackedAdapters
from headrace.engine.cpu.weights.key_factors import has_effect
from headrace.engine.cpu.weights.packed_weights import PackedWeights
from headrace.engine.kernels.choice.candidates import candidates, choose_instructions, recall_verdicts
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena
from headrace.engine.kernels.library import Function, Instructions, pointer
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import FeedForward, Layer, Matrix, Model, Routing, Step
from headrace.engine.memory.aligned import address

LANES = 16


def can_fuse(config: DecoderConfig | EncoderConfig, kept: Path | None) -> tuple[bool, str]:
    """Whether the kernels can run a model, and the reason if they cannot. What their self test finds is kept in the
    folder `kept`, if there is one."""
    if kept is not None:
        recall_verdicts(kept.expanduser())
    if choose_instructions() is None:
        return False, candidates()[-1].reason
    sizes = {"hidden": config.hidden_size, "head": config.head_size}
    if uneven := [name for name, size in sizes.items() if size % LANES]:
        return False, f"its {uneven[0]} size of {sizes[uneven[0]]} is not a multiple of {LANES}"
    return True, "ok"


class CpuDecoder:
    """Decoder on the fused kernels. Holds no request state; the KvArena does."""

    def __init__(self, config: DecoderConfig, max_len: int, weights: PackedWeights, *, exact: bool) -> None:
        """`max_len` is the longest context in tokens. Unless `exact`, products with quantized weights also quantize
        their inputs."""
        self._config = config
        self._weights = weights
        self._exact = exact
        self._adapters: PackedAdapters | None = None
        self._angles = layer_angles(config, max_len)
        self._experts = [self._layer_experts(index) for index in range(config.layer_count)]
        self._layers = (Layer * config.layer_count)(*(self._layer(index) for index in range(config.layer_count)))
        self._model = Model(
            layers=self._layers,
            embedding=address(weights.embedding.numbers),
            final_norm=address(weights.vectors["model.norm"]),
            head=self._matrix("head"),
            layer_count=config.layer_count,
            hidden=config.hidden_size,
            vocabulary=config.vocabulary_size,
            head_count=config.head_count,
            kv_head_count=config.kv_head_count,
            head_size=config.head_size,
            rotary_size=config.rotary_size,
            position_count=min(len(cosine) for cosine, _ in self._angles),
            embedding_storage=weights.embedding.storage,
            epsilon=config.rms_norm_epsilon,
            scale=config.attention_scale,
            embedding_scale=config.embedding_scale,
            soft_cap=config.attention_soft_cap or 0.0,
            logit_soft_cap=config.logit_soft_cap or 0.0,
            sees_all=config.sees_all,
            norms_rotated=config.norms_rotated,
            activation=Function[config.activation.upper()],
            routing=Routing() if config.experts is None else pack_routing(config.experts),
        )

    @property
    def result_size(self) -> int:
        """Numbers that a step gives for each wanted token: logits, or without a head its hidden state."""
        return self._config.vocabulary_size if self._config.has_head else self._config.hidden_size

    def embed(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the rows fp32 [tokens, hidden] of the embedding table, unscaled. Raises Unsupported for a table that
        only the kernels read."""
        return self._weights.embedding.rows(token_ids)

    def score(self, states: NDArray[np.float32], context: KernelContext) -> NDArray[np.float32]:
        """Returns the logits [rows, vocabulary] of normalized hidden states [rows, hidden]."""
        logits = context.product(self._weights.matrices["head"], states, exact=self._exact)
        if cap := self._config.logit_soft_cap:
            context.activate(Function.SOFT_CAP, address(logits), address(logits), logits.shape, cap)
        return logits

    def bind(self, arena: KvArena) -> None:
        """Sets where keys and values are stored from now on. Layers beyond those of the arena share its last one, and
        overwrite what is there."""
        self._model.block_size, self._model.block_bytes = arena.shape.block_size, arena.shape.block_bytes
        self._model.kv_storage, self._model.block_count = arena.shape.storage, arena.block_count
        for index, layer in enumerate(self._layers):
            places = arena.places(min(index, arena.shape.layer_count - 1))
            layer.keys, layer.values = places.keys, places.values
            layer.key_scales, layer.value_scales = places.key_scales, places.value_scales
            layer.key_factors = self._key_factors(index, arena.shape.storage)

    def add_adapters(self, adapters: PackedAdapters) -> None:
        """Lets steps name adapters from now on."""
        self._adapters = adapters
        self._model.updates, self._model.adapter_count = adapters.updates, adapters.count

    def compute(self, step: Step, context: KernelContext, instructions: Instructions) -> None:
        context.step(self._model, step, instructions)

    def _layer(self, index: int) -> Layer:
        config, prefix = self._config, f"model.layers.{index}"
        cosine, sine = self._angles[index]
        # Without norms after blocks, Hugging Face names the norm before the second block after the first.
        mlp_norm = "pre_feedforward" if config.post_norms else "post_attention"
        post_attention_norm = f"{prefix}.post_attention_layernorm" if config.post_norms else ""
        experts = self._experts[index]
        return Layer(
            attention_norm=self._vector(f"{prefix}.input_layernorm"),
            mlp_norm=self._vector(f"{prefix}.{mlp_norm}_layernorm"),
            query_norm=self._vector(f"{prefix}.self_attn.q_norm"),
            key_norm=self._vector(f"{prefix}.self_attn.k_norm"),
            post_attention_norm=self._vector(post_attention_norm),
            post_mlp_norm=self._vector(f"{prefix}.post_feedforward_layernorm"),
            qkv=self._matrix(f"{index}.qkv"),
            output=self._matrix(f"{index}.output"),
            mlp=self._feed_forward(f"{index}"),
            qkv_rest=(Matrix * 2)(self._matrix(f"{index}.qkv.1"), self._matrix(f"{index}.qkv.2")),
            router=self._matrix(f"{index}.router"),
            experts=experts if len(experts) else None,
            router_bias=self._vector(f"{index}.router_bias"),
            sinks=self._vector(f"{index}.sinks"),
            cosine=address(cosine),
            sine=address(sine),
            window=config.windows[index] or 0,
        )

    def _layer_experts(self, index: int) -> "ctypes.Array[FeedForward]":
        """Describes the experts of a layer: none where it has a single feed-forward block."""
        experts = self._config.experts
        names = [] if experts is None or index in experts.dense_layers else [name for name, _ in experts.experts]
        return (FeedForward * len(names))(*(self._feed_forward(f"{index}.{name}") for name in names))

    def _feed_forward(self, prefix: str) -> FeedForward:
        return FeedForward(*(self._matrix(f"{prefix}.{name}") for name in ("gate_up", "down", "up")))

    def _vector(self, name: str) -> int | None:
        """Returns the address of the weights of a norm, or None if the model has none of that name."""
        return pointer(self._weights.vectors.get(name))

    def _key_factors(self, index: int, storage: Storage) -> int | None:
        """Returns the address of the factors of a layer's keys, or None where they change nothing: codes of floating
        point keep small elements beside large ones."""
        factors = self._weights.vectors[f"{index}.key_factors"]
        return address(factors) if storage is Storage.S8 and has_effect(factors) else None

    def _matrix(self, name: str) -> Matrix:
        """Describes a matrix to the kernels; without rows if the model has none of that name."""
        weight = self._weights.matrices.get(name)
        return Matrix() if weight is None else weight.matrix(exact=self._exact)
