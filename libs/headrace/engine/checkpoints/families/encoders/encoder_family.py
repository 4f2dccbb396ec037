"""Differences of one encoder architecture from BERT."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig, EncoderNames
from headrace.engine.checkpoints.facts.scoring_modules import ScoringModules


def as_bert(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    """Returns `config` unchanged: nothing differs from BERT."""
    return config


SCORING = "ForSequenceClassification"
"""End of the name of an encoder with a classifier."""


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """Rules for reading the checkpoints of one architecture."""

    stem: str
    """Start of the architecture names: `BertModel`, and `BertForMaskedLM`, whose head is ignored."""
    adapt: Callable[[EncoderConfig, Mapping[str, Any]], EncoderConfig] = as_bert
    """Turns the config of a BERT with this config.json into the config of this architecture."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys in this architecture's config.json, by BERT's names."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Default values of keys that config.json may omit, by BERT's names."""
    names: EncoderNames = field(default_factory=EncoderNames)
    scoring: ScoringModules = field(default_factory=ScoringModules)
    """Classifier of models that score pairs of texts."""

    @property
    def architectures(self) -> tuple[str, ...]:
        return f"{self.stem}Model", f"{self.stem}ForMaskedLM", f"{self.stem}{SCORING}"
