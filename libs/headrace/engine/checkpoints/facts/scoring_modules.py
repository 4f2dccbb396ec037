"""The classifier behind an encoder that scores how well two texts belong together."""

from dataclasses import dataclass
from typing import Literal

from headrace.engine.checkpoints.facts.pooling import Pooling

ScoringFunction = Literal["tanh", "relu", "gelu"]


@dataclass(frozen=True, slots=True)
class ScoringModules:
    """Names and form of a classifier's modules: a hidden layer, perhaps with a norm, and an output. The defaults are
    RoBERTa's."""

    dense: str = "classifier.dense"
    function: ScoringFunction = "tanh"
    """Activation of the hidden layer."""
    norm: str = ""
    """Layer norm behind the activation. Empty: there is none."""
    output: str = "classifier.out_proj"
    pooling: Pooling = Pooling.CLS
    """Choice of the hidden states that the classifier reads."""
