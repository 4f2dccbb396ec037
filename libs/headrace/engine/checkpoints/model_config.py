"""Reads a model folder's `config.json` and `generation_config.json` into the facts that the engine needs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.checkpoints.facts.rotary.rope_scaling import LongRopeScaling, RopeScaling, YarnScaling
from headrace.engine.checkpoints.facts.rotary.rotary_angles import angles_are_finite
from headrace.engine.checkpoints.facts.scheme import read_scheme
from headrace.engine.checkpoints.families.decoders.decoder_family import Family
from headrace.engine.checkpoints.families.decoders.rope_parameters import find_rope_parameters, read_rope_scaling
from headrace.engine.checkpoints.families.registry import find_family
from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.errors.tree import InvalidCheckpoint, Unsupported
from headrace.folder_text.folder_ends import end_token_ids

MAX_SIZES = {
    "vocabulary_size": 1 << 24,
    "hidden_size": 1 << 18,
    "intermediate_size": 1 << 20,
    "layer_count": 1 << 12,
    "head_count": 1 << 12,
    "kv_head_count": 1 << 12,
    "head_size": 1 << 12,
    "max_model_length": 1 << 24,
}
"""Largest sizes that are believed, far beyond those of any published model: memory is sized by them."""


def read_model_config(folder: Path, *, for_embeddings: bool = False) -> DecoderConfig:
    """Reads a Hugging Face model folder, with old or new config.json keys. `for_embeddings`: whether the model may be
    one that makes no text.

    Raises InvalidCheckpoint if a file or a key is missing or malformed, Unsupported if the model needs a feature that
    Headrace does not have.
    """
    raw = _read_gguf(folder) if is_gguf(folder) else read_json(folder / "config.json")
    try:
        family = find_family((raw.get("architectures") or ["none"])[0])
        raw = family.own_part(raw)
        _refuse_other_activations(family, raw)
        config = replace(family.adapt(_read_as_llama(folder, raw), raw), is_nested=family.is_nested)
        _check_sizes(config)
        if config.sees_all and not for_embeddings:
            raise Unsupported(f"{config.architecture} has bidirectional attention: it makes embeddings and no text")
    except KeyError as error:
        raise InvalidCheckpoint(f"{folder / 'config.json'} has no {error.args[0]!r}") from error
    except (TypeError, ValueError, OverflowError, ZeroDivisionError, AttributeError) as error:
        if isinstance(error, (InvalidCheckpoint, Unsupported)):
            raise
        raise InvalidCheckpoint(f"{folder / 'config.json'} is malformed: {error}") from error
    return config


def read_llama_config(folder: Path, raw: dict[str, Any]) -> DecoderConfig:
    """Reads the facts of a Llama from `raw`, a part of a folder's config.json. Raises KeyError, TypeError and
    ValueError where it is malformed, InvalidCheckpoint and Unsupported as `read_model_config` does."""
    family = find_family("LlamaForCausalLM")
    raw = raw | {"architectures": [family.architecture]}
    _refuse_other_activations(family, raw)
    config = family.adapt(_read_as_llama(folder, raw), raw)
    _check_sizes(config)
    return config


def _read_gguf(path: Path) -> dict[str, Any]:
    # Importing torch takes more than a second, and folders that are already packed do not need it.
    from headrace.engine.checkpoints.gguf.gguf_arrays import GgufArrays

    return GgufArrays(path).config()


def _read_as_llama(folder: Path, raw: dict[str, Any]) -> DecoderConfig:
    """Reads config.json as if the model were a Llama."""
    head_count = int(raw["num_attention_heads"])
    head_size = int(raw.get("head_dim") or raw["hidden_size"] // head_count)
    rope = find_rope_parameters(raw)
    rope_scaling = read_rope_scaling(rope)
    attention_bias = bool(raw.get("attention_bias", False))
    return DecoderConfig(
        architecture=raw["architectures"][0],
        vocabulary_size=int(raw["vocab_size"]),
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=_widest(raw["intermediate_size"]),
        layer_count=int(raw["num_hidden_layers"]),
        head_count=head_count,
        kv_head_count=int(raw.get("num_key_value_heads") or head_count),
        head_size=head_size,
        rms_norm_epsilon=float(raw.get("rms_norm_eps", 1e-6)),
        max_model_length=_stretched_len(int(raw["max_position_embeddings"]), rope_scaling),
        rope_theta=float(rope.get("rope_theta") or 10_000.0),
        rope_scaling=rope_scaling,
        rotary_size=int(head_size * float(rope.get("partial_rotary_factor") or 1.0)),
        tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
        qkv_bias=attention_bias,
        output_bias=attention_bias,
        mlp_bias=bool(raw.get("mlp_bias", False)),
        eos_token_ids=_eos_token_ids(folder, raw),
        precision=str(raw.get("dtype") or raw.get("torch_dtype") or "float32"),
        quantization=read_scheme(folder, raw),
        windows=(None,) * min(int(raw["num_hidden_layers"]), MAX_SIZES["layer_count"]),
        attention_scale=head_size**-0.5,
    )


def _widest(sizes: Any) -> int:
    """Returns the inner units of a feed-forward block, or of the widest one where config.json lists them by layer."""
    return max(map(int, sizes)) if isinstance(sizes, list) else int(sizes)


def _stretched_len(max_len: int, scaling: RopeScaling | None) -> int:
    """Extends `max_len` for yarn. Users who add it to config.json often leave `max_position_embeddings` unchanged."""
    if isinstance(scaling, YarnScaling):
        return max(max_len, int(scaling.original_max_len * scaling.factor))
    return max_len


def _refuse_other_activations(family: Family, raw: Mapping[str, Any]) -> None:
    name = raw.get(family.activation_key, family.activations[0])
    if name not in family.activations:
        known = ", ".join(family.activations)
        raise Unsupported(f"activation {name} is not supported in {family.architecture}: only {known}")


def _eos_token_ids(folder: Path, raw: dict[str, Any]) -> frozenset[int]:
    return frozenset(raw["eos_token_id"] if is_gguf(folder) else end_token_ids(folder))


def _check_sizes(config: DecoderConfig) -> None:
    for name, most in MAX_SIZES.items():
        size = getattr(config, name)
        if not 1 <= size <= most:
            raise InvalidCheckpoint(f"config.json: {name} is {size}, and may be from 1 to {most}")
    if config.head_count % config.kv_head_count:
        raise InvalidCheckpoint(
            f"config.json: {config.head_count} attention heads cannot share {config.kv_head_count} KV heads evenly"
        )
    if config.precision not in ("float32", "bfloat16", "float16"):
        raise Unsupported(f"checkpoint dtype {config.precision} is not supported: only float32, bfloat16, float16")
    if config.experts is not None:
        _check_experts(config.experts)
    _check_long_rope(config)
    _check_rotary(config)


def _check_experts(experts: ExpertConfig) -> None:
    count, routing = experts.count, experts.routing
    if not 1 <= routing.chosen_count <= count:
        raise InvalidCheckpoint(f"config.json: {routing.chosen_count} of {count} experts are chosen for each token")
    if experts.latent is not None and experts.latent.size < 1:
        raise InvalidCheckpoint(
            f"config.json: moe_latent_size is {experts.latent.size}, and experts compute within at least 1 number"
        )
    groups, kept = routing.group_count, routing.chosen_group_count
    if groups == 1:
        return
    if groups < 1 or count % groups or count // groups < 2 or not 1 <= kept <= groups:
        raise InvalidCheckpoint(f"config.json: {kept} of {groups} groups of {count} experts are chosen for each token")
    if kept * (count // groups) < routing.chosen_count:
        raise InvalidCheckpoint(f"config.json: {kept} groups have fewer than {routing.chosen_count} experts")


def _check_rotary(config: DecoderConfig) -> None:
    if config.head_size % 2:
        raise InvalidCheckpoint(f"config.json: head_dim is {config.head_size}, but rotary embedding needs an even one")
    if config.rotary_size % 2 or not 2 <= config.rotary_size <= config.head_size:
        raise InvalidCheckpoint(f"config.json: {config.rotary_size} of {config.head_size} elements of a head turn")
    if not angles_are_finite(config.rotary_size, config.rope_theta, config.rope_scaling, config.max_model_length):
        raise InvalidCheckpoint(
            f"config.json: a rope_theta of {config.rope_theta}, or the scaling of it, gives angles that are not finite"
        )


def _check_long_rope(config: DecoderConfig) -> None:
    if isinstance(config.rope_scaling, LongRopeScaling):
        for factors in (config.rope_scaling.short_factors, config.rope_scaling.long_factors):
            if len(factors) != config.rotary_size // 2:
                raise InvalidCheckpoint(
                    f"config.json: longrope has {len(factors)} factors for {config.rotary_size // 2} pairs"
                )
