"""The weights of a CpuDecoder as its kernels read them, by name."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.layout.decoder_weights import LAST_NORM, layer_norms, query_key_norms
from headrace.engine.checkpoints.weights.stored_arrays import StoredArrays
from headrace.engine.kernels.packed_weight import PANEL, PackedWeight
from headrace.engine.kernels.storage import BLOCKS, Storage
from headrace.errors.tree import Unsupported

_PLAIN = (Storage.F32, Storage.BF16, Storage.F16)


@dataclass(frozen=True, slots=True)
class Table:
    """A lookup table of rows."""

    numbers: NDArray[np.generic]
    """Rows of the table [vocabulary, hidden]; panels [bytes] of blocks."""
    storage: Storage

    def rows(self, token_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns rows fp32 [tokens, hidden]. Raises Unsupported for a table that only the kernels read."""
        if self.storage not in _PLAIN:
            raise Unsupported(
                f"the embedding is in blocks of {self.storage.name}: take a draft head with an embedding of its own, "
                "or a checkpoint whose embedding is not quantized"
            )
        return StoredArrays((self.numbers[token_ids],), self.storage).values()


@dataclass(slots=True)
class PackedWeights:
    embedding: Table
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    """Weights of norms, by the name of the norm; and the factors of each layer's keys, see `choose_key_factors`, as in
    `0.key_factors`; and the numbers that the choice of experts adds, as in `0.router_bias`, and softmax counts, as in
    `0.sinks`."""
    matrices: dict[str, PackedWeight] = field(default_factory=dict)
    """Matrices by name: `qkv`, `output`, `gate_up` and `down` of each layer, as in `0.qkv`; `head`, if there is one. A
    layer with experts has a `router`, whose last row may be the gate of the shared expert, and `gate_up` and `down` of
    each expert, as in `0.experts.5.down`, and of the shared one, under its name in checkpoints. Where blocks
    of several kinds make up a matrix: `qkv.1` and `qkv.2`, further rows of `qkv`; `up`, beside which `gate_up` is only
    the gate. The panels of `head` may be those of the embedding."""
    parameter_count: int = 0

    @property
    def is_coded(self) -> bool:
        """Whether the layers' matrices have 8 bits or fewer per weight."""
        return any(matrix.is_coded for name, matrix in self.matrices.items() if name != "head")

    @property
    def has_shared_table(self) -> bool:
        """Whether the embedding and the head are the same panels."""
        return "head" in self.matrices and self.matrices["head"].panels is self.embedding.numbers

    @property
    def byte_count(self) -> int:
        """Memory that the weights take, in bytes."""
        packed = sum(matrix.byte_count for matrix in self.matrices.values())
        tables = () if self.has_shared_table else (self.embedding.numbers,)
        return packed + sum(int(array.nbytes) for array in (*tables, *self.vectors.values()))

    @property
    def block_kinds(self) -> list[str]:
        """Names of the kinds of GGUF's blocks among the matrices."""
        return sorted({matrix.storage.name for matrix in self.matrices.values() if matrix.storage in BLOCKS})


def norm_names(config: DecoderConfig) -> dict[str, int]:
    """Returns the names of a model's norms and their sizes."""
    names = {LAST_NORM: config.hidden_size}
    for index in range(config.layer_count):
        prefix = f"model.layers.{index}"
        names |= {f"{prefix}.{name}": config.hidden_size for name in layer_norms(config)}
        names |= {f"{prefix}.self_attn.{name}": size for name, size in query_key_norms(config).items()}
    return names


def router_bias_names(config: DecoderConfig) -> dict[str, int]:
    """Returns the names of the numbers that the choice of experts adds to scores, and their sizes."""
    experts = config.experts
    if experts is None or not experts.routing.bias_name:
        return {}
    layers = [index for index in range(config.layer_count) if index not in experts.dense_layers]
    return {f"{index}.router_bias": experts.count for index in layers}


def sink_names(config: DecoderConfig) -> dict[str, int]:
    """Returns the names of the scores that softmax counts beside those of keys, and their sizes."""
    layers = range(config.layer_count) if config.has_sinks else ()
    return {f"{index}.sinks": config.head_count for index in layers}


def factor_names(config: DecoderConfig) -> dict[str, int]:
    """Returns the names of the factors of each layer's keys and their sizes."""
    return {f"{index}.key_factors": config.kv_head_count * config.head_size for index in range(config.layer_count)}


def gate_up_rows(inner: int) -> NDArray[np.int64]:
    """Returns the rows of gates and ups [2 x inner] in panels that alternate, so that both halves of an output are
    ready at the same time. Fills up the last panels with -1."""
    rows = np.arange(-(-inner // PANEL) * PANEL)
    rows[inner:] = -1
    panels = rows.reshape(-1, 1, PANEL)
    return np.concatenate([panels, np.where(panels < 0, -1, panels + inner)], axis=1).flatten()
