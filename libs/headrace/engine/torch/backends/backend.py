"""Implementations that a decoder on torch computes with, as one value that its loader and its runner take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from headrace.engine.checkpoints.packing.weight_forms import AS_READ, WeightForms
from headrace.engine.step.sampler import Sampler
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.attention_plan import AttentionPlan
from headrace.engine.torch.backends.step_graphs import StepGraphs
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.decoder_layer import DecoderLayer
from headrace.engine.torch.decoder.joined_layers import JoinedLayers
from headrace.engine.torch.device.chosen_tokens import ChosenTokens
from headrace.engine.torch.operators.operators import Operators


def one_by_one(_: Sequence[DecoderLayer]) -> None:
    """Joins no layers."""


@dataclass(frozen=True, slots=True)
class Backend:
    """Implementations that go together, for one model on one device. Chosen before the weights are read."""

    device: torch.device
    dtype: torch.dtype
    """Type of activations. Keys and values may be kept in another: see `attention.shapes`."""
    operators: Operators
    attention: AttentionPlan
    sampler: Sampler
    """Takes logits in the form that `operators.export` returns."""
    graphs: Callable[[Decoder, PagedAttention, int, ChosenTokens | None], StepGraphs | None]
    """Builds what replays steps of a decoder, for contexts of up to so many tokens, where the settings allow it and the
    model can be replayed. Steps that are launched read the tokens of the step before. Raises ConfigError if the
    settings ask for it and it cannot."""
    forms: WeightForms = AS_READ
    join: Callable[[Sequence[DecoderLayer]], JoinedLayers | None] = one_by_one
    """Joins the layers of a decoder, where the device computes them faster together."""


def without_graphs(_: Decoder, __: PagedAttention, ___: int, ____: ChosenTokens | None) -> None:
    """Replays no steps."""
