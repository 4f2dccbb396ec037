"""Reads the `config.json` of an encoder into the facts that the engine needs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderActivation, EncoderConfig
from headrace.engine.checkpoints.facts.scheme import read_scheme
from headrace.engine.checkpoints.families.encoders.encoder_family import SCORING, EncoderFamily
from headrace.engine.checkpoints.families.registry import find_encoder_family
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.errors.tree import InvalidCheckpoint, Unsupported
from headrace.folder_text.pair_separator import pair_separator

MIN_BUCKET_COUNT = 4
"""Smallest number of buckets: on each side, one exact distance and one bucket for all others."""
_ACTIVATIONS: dict[str, EncoderActivation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_DEFAULTS = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "type_vocab_size": 2}


def read_encoder_config(folder: Path) -> EncoderConfig:
    """Reads a Hugging Face model folder.

    Raises InvalidCheckpoint if a file or a key is missing or malformed, Unsupported if the model needs a feature that
    Headrace does not have.
    """
    path = folder / "config.json"
    raw = read_json(path)
    try:
        family = find_encoder_family((raw.get("architectures") or ["none"])[0])
        renamed = {bert: raw[own] for bert, own in family.keys.items() if own in raw}
        raw = {**_DEFAULTS, **family.defaults, **raw, **renamed}
        _refuse_what_is_not_there(family, raw)
        config = family.adapt(_read_as_bert(folder, raw), raw)
        if config.architecture.endswith(SCORING):
            config = _with_scoring(config, family, folder, raw)
        _check_sizes(config)
    except KeyError as error:
        raise InvalidCheckpoint(f"{path} has no {error.args[0]!r}") from error
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, (InvalidCheckpoint, Unsupported)):
            raise
        raise InvalidCheckpoint(f"{path} is malformed: {error}") from error
    return config


def _read_as_bert(folder: Path, raw: Mapping[str, Any]) -> EncoderConfig:
    """Reads config.json as if the model were a BERT."""
    family = find_encoder_family(raw["architectures"][0])
    return EncoderConfig(
        architecture=raw["architectures"][0],
        vocabulary_size=int(raw["vocab_size"]),
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=int(raw["intermediate_size"]),
        layer_count=int(raw["num_hidden_layers"]),
        head_count=int(raw["num_attention_heads"]),
        position_count=int(raw["max_position_embeddings"]),
        type_count=int(raw["type_vocab_size"]),
        norm_epsilon=float(raw["layer_norm_eps"]),
        activation=_ACTIVATIONS[raw["hidden_act"]],
        precision=str(raw.get("dtype") or raw.get("torch_dtype") or "float32"),
        quantization=read_scheme(folder, raw),
        max_model_length=int(raw["max_position_embeddings"]),
        names=family.names,
    )


def _with_scoring(config: EncoderConfig, family: EncoderFamily, folder: Path, raw: Mapping[str, Any]) -> EncoderConfig:
    """Adds the classifier. Raises Unsupported unless it has one label, whose number is the score of a pair."""
    label_count = len(raw.get("id2label") or {}) or int(raw.get("num_labels") or 2)
    if label_count != 1:
        raise Unsupported(f"{config.architecture} with {label_count} labels is not supported: only with one, a score")
    separator_id = pair_separator(folder) if config.type_count > 1 else None
    return replace(config, scoring=config.scoring or family.scoring, separator_id=separator_id)


def _refuse_what_is_not_there(family: EncoderFamily, raw: Mapping[str, Any]) -> None:
    if raw["hidden_act"] not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise Unsupported(f"activation {raw['hidden_act']} is not supported in {family.stem}: only {known}")
    kind = raw.get("position_embedding_type") or "absolute"
    if kind != "absolute":
        raise Unsupported(f"positions of type {kind} are not supported in {family.stem}: only absolute")
    if raw.get("is_decoder"):
        raise Unsupported(f"{family.stem} as a decoder is not supported: only as an encoder")


def _check_sizes(config: EncoderConfig) -> None:
    sizes = ("vocabulary_size", "hidden_size", "intermediate_size", "layer_count", "head_count", "max_model_length")
    for name in sizes:
        if getattr(config, name) < 1:
            raise InvalidCheckpoint(f"config.json: {name} is {getattr(config, name)}")
    if config.padding_id is not None and config.padding_id < 0:
        raise InvalidCheckpoint(f"config.json: pad_token_id is {config.padding_id}")
    if config.bucket_count and config.bucket_count < MIN_BUCKET_COUNT:
        raise InvalidCheckpoint(f"config.json: relative_attention_num_buckets is {config.bucket_count}")
    if config.hidden_size % config.head_count:
        raise InvalidCheckpoint(
            f"config.json: hidden_size {config.hidden_size} is not a multiple of {config.head_count} attention heads"
        )
    if config.precision not in ("float32", "bfloat16", "float16"):
        raise Unsupported(f"checkpoint dtype {config.precision} is not supported: only float32, bfloat16, float16")
