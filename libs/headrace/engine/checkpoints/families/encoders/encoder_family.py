"""Differences of one architecture of encoders from BERT."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames


def as_bert(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    """Returns `config` as it is: nothing differs from BERT."""
    return config


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """Rules for reading the checkpoints of one architecture."""

    stem: str
    """Beginning of its architectures' names: `BertModel`, and `BertForMaskedLM`, whose head is left out."""
    adapt: Callable[[EncoderConfig, Mapping[str, Any]], EncoderConfig] = as_bert
    """Turns what BERT would be with this config.json into what this architecture is."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Names of keys in this architecture's config.json, by BERT's names."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Keys that config.json may leave out, by BERT's names."""
    names: EncoderNames = field(default_factory=EncoderNames)

    @property
    def architectures(self) -> tuple[str, str]:
        return f"{self.stem}Model", f"{self.stem}ForMaskedLM"
