"""What sets one architecture of encoders apart from BERT."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.engine.models.encoder_config import EncoderConfig, EncoderNames


def as_bert(config: EncoderConfig, raw: Mapping[str, Any]) -> EncoderConfig:
    """Nothing differs."""
    return config


@dataclass(frozen=True, slots=True)
class EncoderFamily:
    """How to read the checkpoints of one architecture."""

    stem: str
    """What its architectures begin with: `BertModel`, and `BertForMaskedLM`, whose head is left out."""
    adapt: Callable[[EncoderConfig, Mapping[str, Any]], EncoderConfig] = as_bert
    """Turns what BERT would be with this config.json into what this architecture is."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """BERT's name of a key of config.json to this architecture's."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Keys that config.json may leave out, by BERT's names."""
    names: EncoderNames = field(default_factory=EncoderNames)

    @property
    def architectures(self) -> tuple[str, str]:
        return f"{self.stem}Model", f"{self.stem}ForMaskedLM"
