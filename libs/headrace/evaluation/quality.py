"""Measures how well a model predicts a text, and how much its predictions differ from another model's."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from headrace.errors.tree import ConfigError


class LanguageModel(Protocol):
    """Model with measurable predictions."""

    def logits(self, token_ids: tuple[int, ...]) -> Tensor:
        """Returns fp32 [tokens - 1, vocabulary]: the model's logits after every token except the last."""
        ...


@dataclass(frozen=True, slots=True)
class Quality:
    """Averages over all predicted tokens of a text."""

    perplexity: float
    kl_divergence: float | None
    """Kullback-Leibler divergence of the model from the reference, in nats per token. None without a reference."""
    top1_agreement: float | None
    """Share of tokens for which model and reference have the same argmax. None without a reference."""
    token_count: int
    """Number of predicted tokens."""
    tokens_per_second: float
    """Tokens per second of the model alone, computing whole sequences."""


def measure(
    model: LanguageModel,
    sequences: Sequence[tuple[int, ...]],
    reference: LanguageModel | None = None,
    report: Callable[[], None] = lambda: None,
) -> Quality:
    """Runs model and reference over all sequences. Calls `report` after each. Raises ConfigError if the vocabularies
    differ."""
    loss = divergence = seconds = 0.0
    agreeing = token_count = 0
    for sequence in sequences:
        start = time.perf_counter()
        ours = torch.log_softmax(model.logits(sequence), dim=-1)
        seconds += time.perf_counter() - start
        loss -= float(_chosen(ours, sequence).double().sum())
        token_count += len(ours)
        if reference is not None:
            theirs = torch.log_softmax(_comparable(reference, ours, sequence), dim=-1)
            divergence += float((theirs.exp() * (theirs - ours)).sum(dim=-1).double().sum())
            agreeing += int((theirs.argmax(dim=-1) == ours.argmax(dim=-1)).sum())
        report()
    return Quality(
        perplexity=math.exp(loss / token_count),
        kl_divergence=None if reference is None else divergence / token_count,
        top1_agreement=None if reference is None else agreeing / token_count,
        token_count=token_count,
        tokens_per_second=token_count / seconds,
    )


def _chosen(logprobs: Tensor, sequence: tuple[int, ...]) -> Tensor:
    """Returns the log-probability of every token except the first."""
    return logprobs.gather(1, torch.tensor(sequence[1:], device=logprobs.device)[:, None])


def _comparable(reference: LanguageModel, ours: Tensor, sequence: tuple[int, ...]) -> Tensor:
    theirs = reference.logits(sequence).to(ours.device)
    if theirs.shape != ours.shape:
        raise ConfigError(
            f"the reference has a vocabulary of {theirs.shape[1]} tokens and the model one of {ours.shape[1]}: "
            "only models with the same vocabulary can be compared"
        )
    return theirs
