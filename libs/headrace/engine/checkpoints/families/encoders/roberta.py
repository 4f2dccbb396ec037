"""RoBERTa (Liu et al., 2019) and XLM-RoBERTa (Conneau et al., 2019): positions start after the padding id."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames
from headrace.engine.checkpoints.families.encoders.encoder_family import EncoderFamily


def count_from_padding(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    """Starts positions after the padding id. The rows of the position embedding table up to and including that index do
    not stand for positions."""
    padding_id = int(raw["pad_token_id"])
    return replace(config, padding_id=padding_id, max_model_length=config.position_count - padding_id - 1)


_DEFAULTS = {"pad_token_id": 1, "layer_norm_eps": 1e-12}
_NAMES = EncoderNames(root="roberta")
ROBERTA = EncoderFamily("Roberta", count_from_padding, defaults=_DEFAULTS, names=_NAMES)
XLM_ROBERTA = EncoderFamily("XLMRoberta", count_from_padding, defaults=_DEFAULTS, names=_NAMES)
