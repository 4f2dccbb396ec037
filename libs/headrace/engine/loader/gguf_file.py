"""Reads a GGUF file as if it were a Hugging Face folder: metadata as config.json, tensors under their names there.

Quantised tensors are dequantised by the `gguf` package, whose arithmetic is the format's reference.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor

from headrace.engine.quantization.loaded_weight import place_rounded
from headrace.engine.quantization.quantized_matrix import Weight
from headrace.errors.tree import InvalidCheckpoint, Unsupported

ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
"""GGUF's names of architectures, and Hugging Face's."""
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
ROPE_FACTORS = "rope_freqs.weight"
UNREADABLE = (ValueError, KeyError, IndexError, TypeError, OSError, OverflowError, NotImplementedError)
"""What the package raises for files that are not whole, or that hold what it does not know."""


def is_gguf(path: Path) -> bool:
    """Whether a model is a GGUF file rather than a folder."""
    return path.suffix == ".gguf" and path.is_file()


class GgufFile:
    """The tensors and the metadata of one GGUF file, memory mapped."""

    def __init__(self, path: Path, round_to_bits: int | None = None) -> None:
        """Raises InvalidCheckpoint or Unsupported."""
        self._path = path
        self._round_to_bits = round_to_bits
        try:
            self._reader = gguf.GGUFReader(path)
            self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        except UNREADABLE as error:
            raise InvalidCheckpoint(f"{path} is not a whole GGUF file: {error!r}.") from error
        self._kind = str(self.metadata("general.architecture", "unknown"))
        if self._kind not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise Unsupported(f"{path}: GGUF architecture {self._kind!r} is not supported: only {known}.")

    def metadata(self, key: str, default: Any = None) -> Any:
        """A value of the file's metadata."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def config(self) -> dict[str, Any]:
        """What config.json would say. Raises InvalidCheckpoint naming a key that is missing."""
        head_count = int(self._of_architecture("attention.head_count"))
        config = {
            "architectures": [ARCHITECTURES[self._kind]],
            "vocab_size": self._shape("token_embd.weight")[0],
            "hidden_size": int(self._of_architecture("embedding_length")),
            "intermediate_size": int(self._of_architecture("feed_forward_length")),
            "num_hidden_layers": int(self._of_architecture("block_count")),
            "num_attention_heads": head_count,
            "num_key_value_heads": int(self._of_architecture("attention.head_count_kv", head_count)),
            "rms_norm_eps": float(self._of_architecture("attention.layer_norm_rms_epsilon")),
            "max_position_embeddings": int(self._of_architecture("context_length")),
            "rope_theta": float(self._of_architecture("rope.freq_base", 10_000.0)),
            "tie_word_embeddings": "output.weight" not in self._tensors,
            "eos_token_id": self._eos_token_ids(),
            "dtype": "float32",
        }
        if (head_size := self._of_architecture("attention.key_length", None)) is not None:
            config["head_dim"] = int(head_size)
        if (scaling := self._rope_scaling()) is not None:
            config["rope_scaling"] = scaling
        return config

    def __contains__(self, name: str) -> bool:
        return self._gguf_name(name) in self._tensors

    def read(self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """The tensor that Hugging Face calls `name`. Raises InvalidCheckpoint if it is missing or has another shape."""
        gguf_name = self._gguf_name(name)
        if gguf_name not in self._tensors:
            raise InvalidCheckpoint(f"{self._path} has no tensor {gguf_name} ({name}).")
        found = self._shape(gguf_name)
        if found != shape:
            raise InvalidCheckpoint(
                f"{self._path}: tensor {gguf_name} has shape {found}, but its metadata imply {shape}."
            )
        tensor = self._tensors[gguf_name]
        try:
            values = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=True))
        except UNREADABLE as error:
            kind = tensor.tensor_type.name
            raise Unsupported(f"{self._path}: tensor {gguf_name} of type {kind} cannot be read: {error!r}.") from error
        if not torch.isfinite(values).all():
            raise InvalidCheckpoint(f"{self._path}: tensor {gguf_name} holds values that are not finite numbers.")
        return self._in_order(gguf_name, values.reshape(shape)).to(device=device, dtype=dtype)

    def matrix(self, name: str, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Weight:
        """The weight [out, in] of module `name`: see WeightSource."""
        weight = self.read(f"{name}.weight", shape, torch.float32, torch.device("cpu"))
        return place_rounded(name, weight, self._round_to_bits, dtype, device)

    def _of_architecture(self, key: str, *default: Any) -> Any:
        value = self.metadata(f"{self._kind}.{key}")
        if value is not None:
            return value
        if default:
            return default[0]
        raise InvalidCheckpoint(f"{self._path} has no metadata {self._kind}.{key}.")

    def _shape(self, gguf_name: str) -> tuple[int, ...]:
        """Outermost dimension first; the file has it last."""
        if gguf_name not in self._tensors:
            raise InvalidCheckpoint(f"{self._path} has no tensor {gguf_name}.")
        return tuple(int(size) for size in reversed(self._tensors[gguf_name].shape))

    def _gguf_name(self, name: str) -> str:
        module, _, kind = name.rpartition(".")
        if module in TOP_NAMES:
            return f"{TOP_NAMES[module]}.{kind}"
        if not module.startswith("model.layers."):
            return name
        index, _, part = module.removeprefix("model.layers.").partition(".")
        return f"blk.{index}.{LAYER_NAMES.get(part, part)}.{kind}"

    def _in_order(self, gguf_name: str, values: Tensor) -> Tensor:
        """Llama's queries and keys are stored with the two halves of each head interleaved."""
        part = gguf_name.split(".")[-2]
        if self._kind != "llama" or part not in ("attn_q", "attn_k"):
            return values
        key = "attention.head_count" if part == "attn_q" else "attention.head_count_kv"
        heads = int(self._of_architecture(key, self._of_architecture("attention.head_count")))
        split = values.reshape(heads, -1, 2, *values.shape[1:])
        return split.transpose(1, 2).reshape(values.shape)

    def _rope_scaling(self) -> Mapping[str, Any] | None:
        kind = self._of_architecture("rope.scaling.type", "none")
        if ROPE_FACTORS in self._tensors:
            return self._llama3_scaling()
        if kind == "none":
            return None
        if kind not in ("linear", "yarn"):
            raise Unsupported(f"{self._path}: rotary scaling {kind!r} is not supported: only linear and yarn.")
        scaling = {"rope_type": kind, "factor": float(self._of_architecture("rope.scaling.factor"))}
        if (original := self._of_architecture("rope.scaling.original_context_length", None)) is not None:
            scaling["original_max_position_embeddings"] = int(original)
        return scaling

    def _llama3_scaling(self) -> Mapping[str, Any]:
        """Llama 3's scaling is stored as its result, a factor per frequency. Its models share the other settings."""
        tensor = self._tensors[ROPE_FACTORS]
        factor = float(np.max(gguf.dequantize(tensor.data, tensor.tensor_type)))
        return {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }

    def _eos_token_ids(self) -> list[int]:
        keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id")
        return [int(value) for key in keys if (value := self.metadata(key)) is not None]
