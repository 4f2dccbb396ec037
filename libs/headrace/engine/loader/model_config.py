"""Reads a model folder's `config.json` and `generation_config.json` into the facts that the engine needs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.quantization.scheme import QuantizationScheme, read_scheme
from headrace.errors.tree import InvalidCheckpoint, Unsupported

ARCHITECTURES = ("LlamaForCausalLM",)
ROPE_TYPES = ("default", "llama3")


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Stretches the low rotary frequencies (Llama 3 herd of models, 2024)."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_max_len: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a decoder."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_count: int
    head_count: int
    kv_head_count: int
    head_size: int
    rms_norm_epsilon: float
    max_model_len: int
    rope_theta: float
    rope_scaling: Llama3Scaling | None
    tied_embeddings: bool
    attention_bias: bool
    mlp_bias: bool
    eos_token_ids: frozenset[int]
    precision: str
    """The checkpoint's own: float32, bfloat16 or float16."""
    quantization: QuantizationScheme | None


def read_model_config(folder: Path) -> ModelConfig:
    """Reads a Hugging Face model folder, in its older and its newer spelling.

    Raises InvalidCheckpoint where a file or a key is missing or malformed, Unsupported where the model needs
    something that Headrace does not have.
    """
    raw = _read_json(folder / "config.json")
    try:
        _refuse_unsupported(raw)
        return _build(folder, raw)
    except KeyError as error:
        raise InvalidCheckpoint(f"{folder / 'config.json'} has no {error.args[0]!r}.") from error
    except (TypeError, ValueError, ZeroDivisionError, AttributeError) as error:
        if isinstance(error, (InvalidCheckpoint, Unsupported)):
            raise
        raise InvalidCheckpoint(f"{folder / 'config.json'} is malformed: {error}.") from error


def _build(folder: Path, raw: dict[str, Any]) -> ModelConfig:
    head_count = int(raw["num_attention_heads"])
    rope_theta, rope_scaling = _rope(raw)
    config = ModelConfig(
        architecture=raw["architectures"][0],
        vocab_size=int(raw["vocab_size"]),
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=int(raw["intermediate_size"]),
        layer_count=int(raw["num_hidden_layers"]),
        head_count=head_count,
        kv_head_count=int(raw.get("num_key_value_heads") or head_count),
        head_size=int(raw.get("head_dim") or raw["hidden_size"] // head_count),
        rms_norm_epsilon=float(raw.get("rms_norm_eps", 1e-6)),
        max_model_len=int(raw["max_position_embeddings"]),
        rope_theta=rope_theta,
        rope_scaling=rope_scaling,
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        attention_bias=bool(raw.get("attention_bias", False)),
        mlp_bias=bool(raw.get("mlp_bias", False)),
        eos_token_ids=_eos_token_ids(folder, raw),
        precision=str(raw.get("dtype") or raw.get("torch_dtype") or "float32"),
        quantization=read_scheme(folder, raw),
    )
    _check_sizes(config)
    return config


def _refuse_unsupported(raw: dict[str, Any]) -> None:
    architectures = raw.get("architectures") or ["none"]
    if architectures[0] not in ARCHITECTURES:
        raise Unsupported(f"Architecture {architectures[0]} is not supported: only {', '.join(ARCHITECTURES)}.")
    if raw.get("hidden_act", "silu") not in ("silu", "swish"):
        raise Unsupported(f"Activation {raw['hidden_act']} is not supported: only silu.")


def _rope(raw: dict[str, Any]) -> tuple[float, Llama3Scaling | None]:
    """Newer files keep everything in `rope_parameters`; older ones have `rope_theta` beside `rope_scaling`."""
    parameters = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = float(parameters.get("rope_theta") or raw.get("rope_theta") or 10_000.0)
    kind = parameters.get("rope_type") or parameters.get("type") or "default"
    if kind not in ROPE_TYPES:
        raise Unsupported(f"Rotary embedding {kind!r} is not supported: only {', '.join(ROPE_TYPES)}.")
    if kind == "default":
        return theta, None
    scaling = Llama3Scaling(
        factor=float(parameters["factor"]),
        low_frequency_factor=float(parameters["low_freq_factor"]),
        high_frequency_factor=float(parameters["high_freq_factor"]),
        original_max_len=int(parameters["original_max_position_embeddings"]),
    )
    return theta, scaling


def _eos_token_ids(folder: Path, raw: dict[str, Any]) -> frozenset[int]:
    """All ids that either file names: chat models often list more in `generation_config.json`."""
    generation = folder / "generation_config.json"
    found: set[int] = set()
    for source in (raw, _read_json(generation) if generation.is_file() else {}):
        ids = source.get("eos_token_id")
        found.update([ids] if isinstance(ids, int) else ids or [])
    return frozenset(found)


def _check_sizes(config: ModelConfig) -> None:
    sizes = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "layer_count",
        "head_count",
        "kv_head_count",
        "head_size",
    )
    for name in (*sizes, "max_model_len"):
        if getattr(config, name) < 1:
            raise InvalidCheckpoint(f"config.json: {name} is {getattr(config, name)}.")
    if config.head_count % config.kv_head_count:
        raise InvalidCheckpoint(
            f"config.json: {config.head_count} attention heads cannot share {config.kv_head_count} KV heads evenly."
        )
    if config.head_size % 2:
        raise InvalidCheckpoint(f"config.json: head_dim is {config.head_size}, but rotary embedding needs an even one.")
    if config.precision not in ("float32", "bfloat16", "float16"):
        raise Unsupported(f"Checkpoint dtype {config.precision} is not supported: only float32, bfloat16, float16.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InvalidCheckpoint(f"{path} is missing: a model folder needs it.") from error
    except (OSError, ValueError) as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise InvalidCheckpoint(f"{path} does not hold a JSON object.")
    return content
