"""Reads a GGUF file as if it were a Hugging Face folder: metadata as config.json, tensors by their Hugging Face names.

The `gguf` package dequantizes the tensors; its arithmetic is the format's reference.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headrace.engine.checkpoints.gguf.gguf_architecture import EXPERT_NAMES
from headrace.engine.checkpoints.gguf.gguf_metadata import GgufMetadata
from headrace.engine.checkpoints.gguf.known_architectures import find_architecture
from headrace.engine.checkpoints.weights.quantized_arrays import BlockArrays, BlockRun, Floats
from headrace.engine.checkpoints.weights.stored_arrays import Numbers
from headrace.engine.kernels.storage import BLOCKS, Storage
from headrace.engine.memory.mapped_file import MappedFile
from headrace.errors.tree import InvalidCheckpoint, Unsupported
from headrace.gguf_text.gguf_parts import read_parts
from headrace.gguf_text.gguf_tensor import GgufTensor

Scalar = TypeVar("Scalar", bound=np.generic)

TOP_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.embed_tokens_per_layer": "per_layer_token_embd",
    "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm",
}
STACKED = re.compile(r"model\.(altup_projections|altup_unembed_projections)\.(\d+)")
STACKED_NAMES = {"altup_projections": "altup_proj", "altup_unembed_projections": "altup_unembd_proj"}
"""GGUF names of matrices that lie in one tensor."""
GATES_AND_UPS = "ffn_gate_up_exps.weight"
"""Tensor of the gates and ups of all experts, gates first."""
BARE_NAMES = {"self_attn.sinks": "attn_sinks.weight"}
"""Tensors of a layer that belong to no module of their own."""
EXPERT = re.compile(r"model\.layers\.(\d+)\.\w+\.experts\.(\d+)\.(\w+)")
LATENT_UP = re.compile(r"model\.layers\.(\d+)\.self_attn\.kv_b_proj\.weight")
CENTERED_KEY = "attention.layer_norm_epsilon"
CENTERED_EPSILONS = ("layer_norm_eps", "norm_epsilon", "norm_eps", "layer_norm_epsilon")
"""Names of the epsilon of layer norms, in Cohere, StableLM and GPT-NeoX, StarCoder 2, Nemotron and Falcon."""
MAX_LAYERS = 10_000
STATE_NORM = ".ssm_norm.weight"
"""End of the names of the norms of a state's output, to which converters add nothing."""
DECAYS = ".ssm_a"
"""End of the names of the decays of states."""
ROPE_FACTORS = "rope_freqs.weight"
LONG_FACTORS, SHORT_FACTORS = "rope_factors_long.weight", "rope_factors_short.weight"
UNREADABLE = (ValueError, KeyError, IndexError, TypeError, OSError, OverflowError, NotImplementedError)
"""Errors that the `gguf` package raises for truncated files or unknown content."""


class GgufArrays:
    """The tensors and the metadata of one GGUF model, memory mapped: a file, or all parts that it was split into."""

    def __init__(self, path: Path, *, keeps_blocks: bool = False) -> None:
        """`keeps_blocks` has `quantized` return blocks. Raises InvalidCheckpoint or Unsupported."""
        self._path = path
        self._keeps_blocks = keeps_blocks
        try:
            parts = read_parts(path)
            self._files = [_mapped(part) for part, _ in parts]
        except InvalidCheckpoint:
            raise
        except UNREADABLE as error:
            raise InvalidCheckpoint(f"{path} is not a whole GGUF file: {error!r}") from error
        self._tensors: dict[str, GgufTensor] = {}
        self._places: dict[str, MappedFile] = {}
        """File of each tensor."""
        for (part, header), file in zip(parts, self._files, strict=True):
            if twice := self._tensors.keys() & header.tensors.keys():
                raise InvalidCheckpoint(f"{part} has tensor {min(twice)}, which another part has as well")
            self._tensors |= header.tensors
            self._places |= dict.fromkeys(header.tensors, file)
        self._tensors |= {name: _halved(self._tensors[name]) for name in self._tensors if name.endswith(GATES_AND_UPS)}
        self._metadata = GgufMetadata(*parts[0])
        self._architecture = find_architecture(self._metadata)
        for module, names in self._architecture.other_names.items():
            if f"blk.0.{module}.weight" in self._tensors:
                layer_names = {**self._architecture.layer_names, **names}
                self._architecture = replace(self._architecture, layer_names=layer_names)

    def config(self) -> dict[str, Any]:
        """Converts the metadata to a config.json. Raises InvalidCheckpoint naming a key that is missing, or too large a
        number of layers."""
        metadata = self._metadata
        head_count, layer_count = metadata.integer("attention.head_count"), metadata.integer("block_count")
        if layer_count > MAX_LAYERS:
            raise InvalidCheckpoint(
                f"{self._path}: block_count is {layer_count}: no model has over {MAX_LAYERS} layers"
            )
        config = {
            "architectures": [self._architecture.class_name],
            "vocab_size": self._shape("token_embd.weight")[0],
            "hidden_size": metadata.integer("embedding_length"),
            "intermediate_size": max(metadata.integers("feed_forward_length")),
            "num_hidden_layers": layer_count,
            "num_attention_heads": head_count,
            "num_key_value_heads": metadata.integers("attention.head_count_kv", head_count)[0],
            **self._epsilons(),
            "max_position_embeddings": metadata.integer("context_length"),
            "rope_theta": metadata.number("rope.freq_base", 10_000.0),
            "tie_word_embeddings": "output.weight" not in self._tensors,
            "eos_token_id": metadata.eos_token_ids,
            "dtype": "float32",
        }
        for kind, modules in (
            ("bias", self._architecture.biased_modules),
            ("weight", self._architecture.optional_modules),
        ):
            config |= {key: f"blk.0.{name}.{kind}" in self._tensors for key, name in modules.items()}
        if metadata.has("attention.key_length"):
            config["head_dim"] = metadata.integer("attention.key_length")
        if (scaling := self._rope_scaling()) is not None:
            config["rope_scaling"] = scaling
        try:
            shapes = {name: tensor.shape for name, tensor in self._tensors.items()}
            return config | dict(self._architecture.describe(metadata)) | dict(self._architecture.examine(shapes))
        except ZeroDivisionError as error:
            raise InvalidCheckpoint(f"{self._path}: a size in its metadata is 0") from error

    def __contains__(self, name: str) -> bool:
        return self._place(name)[0] in self._tensors

    def values(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Reads the tensor that Hugging Face calls `name`, as fp32. Raises InvalidCheckpoint if it is missing or
        misshapen."""
        if (number := self._layer_number(name)) is not None:
            return np.full(shape, number, dtype=np.float32)
        if (both := LATENT_UP.fullmatch(name)) and f"blk.{both[1]}.attn_kv_b.weight" not in self._tensors:
            return self._latent_up(f"blk.{both[1]}", shape)
        gguf_name, expert = self._find(name, shape)
        values = self._in_order(gguf_name, self._dequantize(gguf_name, expert).reshape(shape))
        if gguf_name.endswith("norm.weight") and not gguf_name.endswith(STATE_NORM):
            values = values - np.float32(self._architecture.norm_offset)
        return self._logarithms(gguf_name, values) if gguf_name.endswith(DECAYS) else values

    def _layer_number(self, name: str) -> float | None:
        """Reads a number of a layer that the file has in its metadata. None: it is a tensor."""
        index, _, part = name.removeprefix("model.layers.").partition(".")
        key = self._architecture.layer_numbers.get(part)
        return None if key is None else self._metadata.layer_number(key, int(index))

    def _logarithms(self, gguf_name: str, decays: Floats) -> Floats:
        """Returns the logarithms of the decays of a state, which files have as negative numbers."""
        if not (decays < 0).all():
            raise InvalidCheckpoint(f"{self._path}: tensor {gguf_name} holds decays that are not negative")
        logarithms: Floats = np.log(-decays)
        return logarithms

    def _latent_up(self, layer: str, shape: tuple[int, ...]) -> Floats:
        """Joins the products of each head's keys, which a file may have apart and transposed [heads, latent, key], and
        of its values [heads, value, latent]. Raises InvalidCheckpoint if one is missing or misshapen."""
        names = f"{layer}.attn_k_b.weight", f"{layer}.attn_v_b.weight"
        keys, values = self._shape(names[0]), self._shape(names[1])
        if (
            not len(keys) == len(values) == 3
            or keys[0] != values[0]
            or shape
            != (
                keys[0] * (keys[2] + values[1]),
                keys[1],
            )
        ):
            raise InvalidCheckpoint(
                f"{self._path}: tensors {', '.join(names)} have shapes {keys} and {values}; metadata imply {shape}"
            )
        parts = [self._dequantize(names[0]).transpose(0, 2, 1), self._dequantize(names[1])]
        return np.concatenate(parts, axis=1).reshape(shape)

    def stored(self, name: str, shape: tuple[int, ...]) -> tuple[Numbers, Storage]:
        """Reads the tensor that Hugging Face calls `name`, as fp32: see `values`."""
        return self.values(name, shape), Storage.F32

    def forget(self) -> None:
        """Gives back the memory of the blocks that were read. They stay valid: they are read again."""
        for file in self._files:
            file.forget(file.bytes)

    def quantized(self, name: str, shape: tuple[int, int]) -> BlockArrays | None:
        """Views the blocks of the weight [out, in] of module `name` in the file, or copies them where they are to be
        reordered; None if it is to be read as the numbers that it stands for. Raises InvalidCheckpoint if it is
        missing, misshapen or not finite."""
        if not self.has_blocks(name):
            return None
        gguf_name, expert = self._find(f"{name}.weight", shape)
        tensor = self._tensors[gguf_name]
        run = BlockRun((self._in_order(gguf_name, self._bytes(tensor, expert)),), Storage[tensor.kind])
        if not run.has_finite_scales():
            raise InvalidCheckpoint(f"{self._path}: tensor {gguf_name} holds values that are not finite numbers")
        return BlockArrays((run,))

    def has_blocks(self, name: str) -> bool:
        """Whether `quantized` returns the blocks of module `name`."""
        gguf_name, _ = self._place(f"{name}.weight")
        if not self._keeps_blocks or gguf_name not in self._tensors:
            return False
        return Storage.__members__.get(self._tensors[gguf_name].kind) in BLOCKS

    def _find(self, name: str, shape: tuple[int, ...]) -> tuple[str, int | None]:
        """Returns the place of a tensor, see `_place`. Raises InvalidCheckpoint if it is missing or misshapen."""
        gguf_name, expert = self._place(name)
        if gguf_name not in self._tensors:
            raise InvalidCheckpoint(f"{self._path} has no tensor {gguf_name} ({name})")
        found = self._shape(gguf_name)
        fits = _is_like(found, shape) if expert is None else found[1:] == shape and expert < found[0]
        if not fits:
            wanted = shape if expert is None else ("experts", *shape)
            raise InvalidCheckpoint(
                f"{self._path}: tensor {gguf_name} has shape {found}, but its metadata imply {wanted}"
            )
        return gguf_name, expert

    def _dequantize(self, gguf_name: str, expert: int | None = None) -> Floats:
        """Dequantizes a tensor, or one expert's part, to fp32. Raises Unsupported or InvalidCheckpoint naming the
        tensor."""
        # Importing it takes a tenth of a second, and a start with packed weights does without.
        import gguf

        tensor = self._tensors[gguf_name]
        kind = gguf.GGMLQuantizationType[tensor.kind]
        try:
            # Invalid values are reported below, with the tensor's name.
            with np.errstate(all="ignore"):
                values = gguf.dequantize(self._bytes(tensor, expert), kind).astype(np.float32, copy=True)
        except UNREADABLE as error:
            raise Unsupported(
                f"{self._path}: tensor {gguf_name} of type {tensor.kind} cannot be read: {error!r}"
            ) from error
        if not np.isfinite(values).all():
            raise InvalidCheckpoint(f"{self._path}: tensor {gguf_name} holds values that are not finite numbers")
        return values.reshape(tensor.shape if expert is None else tensor.shape[1:])

    def _bytes(self, tensor: GgufTensor, expert: int | None) -> NDArray[np.uint8]:
        """Returns the rows of a tensor, or of one expert's part, as the file has them [rows, bytes]."""
        size = tensor.byte_count // (1 if expert is None else tensor.shape[0])
        begin = tensor.offset + size * (expert or 0)
        return self._places[tensor.name].bytes[begin : begin + size].reshape(-1, tensor.row_bytes)

    def _shape(self, gguf_name: str) -> tuple[int, ...]:
        """Returns the shape of a tensor, outermost dimension first."""
        if gguf_name not in self._tensors:
            raise InvalidCheckpoint(f"{self._path} has no tensor {gguf_name}")
        return self._tensors[gguf_name].shape

    def _place(self, name: str) -> tuple[str, int | None]:
        """Returns GGUF's name of a tensor, and the index of the expert whose part is wanted, if any."""
        module, _, kind = name.rpartition(".")
        if module in TOP_NAMES:
            return f"{self._architecture.top_names.get(module, TOP_NAMES[module])}.{kind}", None
        if found := STACKED.fullmatch(module):
            return f"{STACKED_NAMES[found[1]]}.{kind}", int(found[2])
        if (found := EXPERT.fullmatch(module)) and found[3] in EXPERT_NAMES:
            both = f"blk.{found[1]}.{GATES_AND_UPS}"
            if found[3] != "down_proj" and both in self._tensors:
                return both, 2 * int(found[2]) + (found[3] == "up_proj")
            return f"blk.{found[1]}.{EXPERT_NAMES[found[3]]}.{kind}", int(found[2])
        if not module.startswith("model.layers."):
            return name, None
        index, _, part = module.removeprefix("model.layers.").partition(".")
        names = {**self._architecture.layer_names, **BARE_NAMES}
        return f"blk.{index}.{names.get(f'{part}.{kind}') or f'{names.get(part, part)}.{kind}'}", None

    def _in_order(self, gguf_name: str, values: NDArray[Scalar]) -> NDArray[Scalar]:
        """Reorders the rows of queries and keys, so that the first half of each head comes before the second."""
        part = gguf_name.split(".")[-2]
        if not self._architecture.interleaves_heads or part not in ("attn_q", "attn_k"):
            return values
        heads = self._metadata.integer("attention.head_count")
        if part == "attn_k":
            heads = max(self._metadata.integers("attention.head_count_kv", heads))
        split = values.reshape(heads, -1, 2, *values.shape[1:])
        return split.swapaxes(1, 2).reshape(values.shape)

    def _epsilons(self) -> dict[str, float]:
        """Reads the epsilon of norms, under the names that architectures have for it in config.json."""
        if self._metadata.has(CENTERED_KEY):
            return dict.fromkeys(CENTERED_EPSILONS, self._metadata.number(CENTERED_KEY))
        return {"rms_norm_eps": self._metadata.number("attention.layer_norm_rms_epsilon")}

    def _rope_scaling(self) -> Mapping[str, Any] | None:
        metadata = self._metadata
        if ROPE_FACTORS in self._tensors:
            return self._rotated_share() if self._architecture.rotates_share else self._llama3_scaling()
        if LONG_FACTORS in self._tensors:
            return self._long_rope_scaling()
        kind = metadata.text("rope.scaling.type", "none")
        if kind == "none":
            return None
        if kind not in ("linear", "yarn"):
            raise Unsupported(f"{self._path}: rotary scaling {kind!r} is not supported: only linear and yarn")
        scaling = {"rope_type": kind, "factor": metadata.number("rope.scaling.factor")}
        if metadata.has("rope.scaling.original_context_length"):
            scaling["original_max_position_embeddings"] = metadata.integer("rope.scaling.original_context_length")
        return scaling

    def _rotated_share(self) -> Mapping[str, Any]:
        """Reads the share of pairs that rotate: the factors of all others are so large that they rest."""
        share = float((self._dequantize(ROPE_FACTORS) == 1).mean())
        return {"rope_type": "proportional", "partial_rotary_factor": share}

    def _llama3_scaling(self) -> Mapping[str, Any]:
        """Reads Llama 3's scaling, stored as a factor per frequency. Its models share the other settings, but for Llama
        4, which has no factors between one and the largest."""
        factors = self._dequantize(ROPE_FACTORS)
        has_ramp = bool(((factors > 1) & (factors < factors.max())).any())
        return {
            "rope_type": "llama3",
            "factor": float(factors.max()),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0 if has_ramp else 1.0,
            "original_max_position_embeddings": 8192,
        }

    def _long_rope_scaling(self) -> Mapping[str, Any]:
        """Reads Phi-3's scaling: one factor per frequency for short contexts, and another for long ones."""
        self._shape(SHORT_FACTORS)
        original = self._metadata.integer("rope.scaling.original_context_length")
        scaling = {
            "rope_type": "longrope",
            "long_factor": self._dequantize(LONG_FACTORS).tolist(),
            "short_factor": self._dequantize(SHORT_FACTORS).tolist(),
            "original_max_position_embeddings": original,
        }
        if self._metadata.has("rope.scaling.attn_factor"):
            scaling["attention_factor"] = self._metadata.number("rope.scaling.attn_factor")
        return scaling


def _halved(tensor: GgufTensor) -> GgufTensor:
    """Returns a tensor of two matrices of each expert [experts, 2 x out, in] as one of twice as many."""
    if len(tensor.shape) != 3 or tensor.shape[1] % 2:
        raise InvalidCheckpoint(f"tensor {tensor.name} has shape {tensor.shape}, not two matrices of each expert")
    count, rows, columns = tensor.shape
    return replace(tensor, shape=(2 * count, rows // 2, columns))


def _is_like(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a shape is the wanted one. Converters may leave out dimensions of 1, and store vectors in rows."""
    return found == wanted or found == tuple(size for size in wanted if size != 1) or (math.prod(found),) == wanted


def _mapped(path: Path) -> MappedFile:
    with path.open("rb") as file:
        return MappedFile(file)
