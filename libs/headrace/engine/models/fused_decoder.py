"""A decoder whose whole step is one call of the kernels. It computes what `Decoder` does for the families that have
norms before their blocks and nothing else: Llama, Mistral, Qwen2, Qwen3, Phi-3."""

import torch
from torch import Tensor

from headrace.engine.kernels.cpu.context import KernelContext
from headrace.engine.kernels.cpu.kv_arena import KvArena
from headrace.engine.kernels.cpu.library import address, load_kernels
from headrace.engine.kernels.cpu.packed_weight import GROUPS, PANEL, PackedWeight
from headrace.engine.kernels.cpu.storage import compact, storage_of
from headrace.engine.kernels.cpu.structures import Layer, Matrix, Model, Step
from headrace.engine.layers.rope_scaling import RopeScaling
from headrace.engine.layers.rotary import rotary_angles
from headrace.engine.loader.weight_source import WeightSource
from headrace.engine.models.decoder_config import DecoderConfig
from headrace.engine.models.decoder_weights import DecoderWeights, Projection
from headrace.engine.quantization import round_to_nearest
from headrace.engine.quantization.quantized_matrix import QuantizedMatrix, Weight, plain

LANES = 16
HEAD_BITS = 8
CPU = torch.device("cpu")


def can_fuse(config: DecoderConfig) -> tuple[bool, str]:
    """Whether the kernels can run a model, and why not."""
    if load_kernels() is None:
        return False, "the kernels are not compiled"
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


class FusedDecoder:
    """A decoder with its weights packed. Holds no state of any request: that is in the KvArena."""

    def __init__(self, config: DecoderConfig, max_len: int, source: WeightSource, *, exact: bool) -> None:
        """`max_len` is the longest context in tokens. Unless `exact`, products with quantised weights quantise their
        inputs too, and the head is held in 8 bits where the other weights have no more.

        Raises InvalidCheckpoint where the weights do not suit.
        """
        self._config = config
        self._exact = exact
        self._kept: list[object] = []
        """What the structures point to."""
        self._weights = DecoderWeights(config, source, torch.float32, CPU)
        embedding = self._keep(compact(self._weights.embedding()).contiguous())
        self._angles = self._build_angles(max_len)
        layers = (Layer * config.layer_count)(*(self._layer(index) for index in range(config.layer_count)))
        self._model = Model(
            layers,
            address(embedding),
            self._norm("model.norm", config.hidden_size),
            self._head(embedding),
            config.layer_count,
            config.hidden_size,
            config.intermediate_size,
            config.vocab_size,
            config.head_count,
            config.kv_head_count,
            config.head_size,
            config.rotary_size,
            0,
            0,
            storage_of(embedding),
            0,
            config.rms_norm_epsilon,
            config.attention_scale,
            config.embedding_scale,
        )
        self._layers = layers

    @property
    def parameter_count(self) -> int:
        return self._weights.parameter_count

    @property
    def vocab_size(self) -> int:
        return self._config.vocab_size

    def bind(self, arena: KvArena) -> None:
        """Says where keys and values are from now on."""
        self._model.block_size, self._model.block_count = arena.block_size, arena.block_count
        self._model.kv_storage = arena.storage
        for layer, memory in zip(self._layers, arena.layers, strict=True):
            layer.keys, layer.values = address(memory.keys), address(memory.values)
            layer.key_scales, layer.value_scales = address(memory.key_scales), address(memory.value_scales)
        self._arena = arena

    def run(self, step: Step, context: KernelContext) -> None:
        context.step(self._model, step)

    def _layer(self, index: int) -> Layer:
        config, prefix = self._config, f"model.layers.{index}"
        window = config.windows[index]
        cosine, sine = self._angles[window is not None and config.local_rope_theta is not None]
        has_norms = config.query_key_norm
        return Layer(
            self._norm(f"{prefix}.input_layernorm", config.hidden_size),
            self._norm(f"{prefix}.post_attention_layernorm", config.hidden_size),
            self._norm(f"{prefix}.self_attn.q_norm", config.head_size) if has_norms else None,
            self._norm(f"{prefix}.self_attn.k_norm", config.head_size) if has_norms else None,
            self._matrix(self._weights.qkv(index)),
            self._matrix(self._weights.attention_output(index)),
            self._gate_up(self._weights.gate_up(index)),
            self._matrix(self._weights.down(index)),
            address(cosine),
            address(sine),
            window or 0,
        )

    def _norm(self, name: str, size: int) -> int | None:
        return address(self._keep(self._weights.norm(name, size).float().contiguous()))

    def _matrix(self, projection: Projection, rows: Tensor | None = None) -> Matrix:
        packed = PackedWeight(projection.weight, projection.bias, rows, exact=self._exact)
        self._kept.append(packed)
        return packed.matrix

    def _gate_up(self, projection: Projection) -> Matrix:
        """Panels of gate and up take turns, so that both halves of an output are there at the same time."""
        inner = self._config.intermediate_size
        rows = torch.arange(-(-inner // PANEL) * PANEL)
        rows[inner:] = -1
        panels = rows.view(-1, 1, PANEL)
        return self._matrix(projection, torch.cat([panels, torch.where(panels < 0, -1, panels + inner)], 1).flatten())

    def _head(self, embedding: Tensor) -> Matrix:
        projection = Projection(embedding) if self._config.tied_embeddings else self._weights.head()
        return self._matrix(Projection(self._rounded(projection.weight)))

    def _rounded(self, weight: Weight) -> Weight:
        """The head in 8 bits, where the matrices of the layers are quantised and nothing need be exact."""
        group = next((size for size in GROUPS if self._config.hidden_size % size == 0), None)
        quantised = any(isinstance(kept, PackedWeight) and kept.is_coded for kept in self._kept)
        if self._exact or not quantised or group is None or isinstance(weight, QuantizedMatrix):
            return weight
        return round_to_nearest.quantize(plain(weight).float(), HEAD_BITS, group, symmetric=False)

    def _build_angles(self, max_len: int) -> dict[bool, tuple[Tensor, Tensor]]:
        """Cosines and sines of all positions, and those of layers with a window where they differ."""
        config = self._config

        def build(theta: float, scaling: RopeScaling | None) -> tuple[Tensor, Tensor]:
            cosine, sine = rotary_angles(config.rotary_size, theta, scaling, max_len)
            return self._keep(cosine.contiguous()), self._keep(sine.contiguous())

        angles = {False: build(config.rope_theta, config.rope_scaling)}
        if config.local_rope_theta is not None:
            angles[True] = build(config.local_rope_theta, None)
        return angles

    def _keep(self, tensor: Tensor) -> Tensor:
        self._kept.append(tensor)
        return tensor
