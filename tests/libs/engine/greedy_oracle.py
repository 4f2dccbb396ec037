"""Greedy texts, compared with a model in transformers in one pass instead of one for each token."""

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel


@torch.inference_mode()
def likeliest_tokens(model: PreTrainedModel, prompt: tuple[int, ...], found: Sequence[int]) -> list[int]:
    """Returns the oracle's likeliest token after the prompt, and after each token of `found` but the last. They equal
    `found` where, and only where, that is the oracle's most likely continuation, token by token."""
    logits = model(torch.tensor([[*prompt, *found]])).logits[0, len(prompt) - 1 : -1]
    tokens: list[int] = logits.argmax(dim=-1).tolist()
    return tokens
