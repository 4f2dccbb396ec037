"""A decoder that runs each step in one kernel call. Computes the same function as `Decoder` for families that normalize
only the inputs of their blocks: Llama, Mistral, Qwen2, Qwen3, Phi-3."""

from functools import partial

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.layer_angles import layer_angles
from headrace.engine.cpu.weights.packed_weights import PackedWeights
from headrace.engine.kernels.choice.self_test import candidates, choose_instructions
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena
from headrace.engine.kernels.library import Instructions, move, pointer
from headrace.engine.kernels.structures import Layer, Matrix, Model, Step
from headrace.engine.memory.aligned import address
from headrace.engine.memory.huge_page_copy import HugePageCopy, Move

LANES = 16
BLOCKS = ("qkv", "output", "gate_up", "down")


def can_fuse(config: DecoderConfig) -> tuple[bool, str]:
    """Whether the kernels can run a model, and the reason if they cannot."""
    if choose_instructions() is None:
        return False, candidates()[-1].reason
    if config.experts is not None:
        return False, "it has experts"
    if config.post_norms or config.norm_offset or config.activation != "silu":
        return False, "it has norms after its blocks, or another activation than SiLU"
    if config.attention_soft_cap is not None or config.logit_soft_cap is not None:
        return False, "it has soft caps"
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
        self._copy: HugePageCopy | None = None
        self._angles = layer_angles(config, max_len)
        self._layers = (Layer * config.layer_count)(*(self._layer(index) for index in range(config.layer_count)))
        self._model = Model(
            self._layers,
            address(weights.embedding.numbers),
            address(weights.vectors["model.norm"]),
            weights.matrices["head"].matrix(exact=exact),
            config.layer_count,
            config.hidden_size,
            config.intermediate_size,
            config.vocabulary_size,
            config.head_count,
            config.kv_head_count,
            config.head_size,
            config.rotary_size,
            position_count=min(len(cosine) for cosine, _ in self._angles),
            embedding_storage=weights.embedding.storage,
            epsilon=config.rms_norm_epsilon,
            scale=config.attention_scale,
            embedding_scale=config.embedding_scale,
        )

    @property
    def vocabulary_size(self) -> int:
        return self._config.vocabulary_size

    def bind(self, arena: KvArena) -> None:
        """Sets where keys and values are stored from now on."""
        self._model.block_size, self._model.block_bytes = arena.shape.block_size, arena.shape.block_bytes
        self._model.kv_storage, self._model.block_count = arena.shape.storage, arena.block_count
        for index, layer in enumerate(self._layers):
            places = arena.places(index)
            layer.keys, layer.values = places.keys, places.values
            layer.key_scales, layer.value_scales = places.key_scales, places.value_scales

    def compute(self, step: Step, context: KernelContext, instructions: Instructions) -> None:
        context.step(self._model, step, instructions)

    def move_to_huge_pages(self) -> HugePageCopy | None:
        """Starts moving file-mapped weights to huge pages. See HugePageCopy."""
        file, matrices = self._weights.file, self._weights.matrices
        if file is None:
            return None
        places = {"head": self._model.head}
        for index, layer in enumerate(self._layers):
            places |= {f"{index}.{name}": getattr(layer, name) for name in BLOCKS}
            rest = {"qkv.1": layer.qkv_rest[0], "qkv.2": layer.qkv_rest[1], "up": layer.up}
            places |= {f"{index}.{name}": place for name, place in rest.items() if f"{index}.{name}" in matrices}
        moves = [Move(matrices[name].panels, partial(move, place)) for name, place in places.items()]
        self._copy = HugePageCopy(file, moves)
        return self._copy

    def _layer(self, index: int) -> Layer:
        config, vectors = self._config, self._weights.vectors
        prefix, window = f"model.layers.{index}", config.windows[index]
        cosine, sine = self._angles[index]
        return Layer(
            address(vectors[f"{prefix}.input_layernorm"]),
            address(vectors[f"{prefix}.post_attention_layernorm"]),
            pointer(vectors.get(f"{prefix}.self_attn.q_norm")),
            pointer(vectors.get(f"{prefix}.self_attn.k_norm")),
            *(self._matrix(f"{index}.{name}") for name in BLOCKS),
            (Matrix * 2)(self._matrix(f"{index}.qkv.1"), self._matrix(f"{index}.qkv.2")),
            self._matrix(f"{index}.up"),
            address(cosine),
            address(sine),
            window or 0,
        )

    def _matrix(self, name: str) -> Matrix:
        """Describes a matrix to the kernels; without rows if the model has none of that name."""
        weight = self._weights.matrices.get(name)
        return Matrix() if weight is None else weight.matrix(exact=self._exact)
