"""Packs the examples into rows of token ids with a loss weight for every target."""

from collections.abc import Iterator

import torch
from tokenizers import Tokenizer
from tools.demo_model.corpus import ANSWER_WEIGHT, Corpus
from torch import Tensor

FIRST_TOKENS = 8  # the start of an answer decides which answer it is, the rest follows from it
FIRST_FACTOR = 5.0


class Batches:
    """Fills rows with whole examples; what does not fit at the end of a row is dropped."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer) -> None:
        self._examples = corpus.examples()
        self._tokenizer = tokenizer

    def take(self, rows: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, targets and weights, each of shape (rows, length)."""
        filled = [self._row(length + 1) for _ in range(rows)]
        ids = torch.tensor([row for row, _ in filled])
        weights = torch.tensor([row for _, row in filled])
        return ids[:, :-1], ids[:, 1:], weights[:, 1:]

    def _row(self, length: int) -> tuple[list[int], list[float]]:
        ids: list[int] = []
        weights: list[float] = []
        while len(ids) < length:
            for part, part_weights in self._encoded():
                ids += part
                weights += part_weights
        return ids[:length], weights[:length]

    def _encoded(self) -> Iterator[tuple[list[int], list[float]]]:
        for segment in next(self._examples):
            ids: list[int] = self._tokenizer.encode(segment.text, add_special_tokens=False).ids
            first = min(len(ids), FIRST_TOKENS) if segment.weight == ANSWER_WEIGHT else 0
            yield ids, [segment.weight * FIRST_FACTOR] * first + [segment.weight] * (len(ids) - first)
