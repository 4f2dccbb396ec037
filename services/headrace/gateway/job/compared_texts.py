"""Texts to compare in pairs, and how close those of a pair are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ComparedTexts:
    """Texts to compare: the first list has one for all of the second, or as many."""

    first: Sequence[str]
    second: Sequence[str]
    field: str
    """Field of the client's request that has the second list."""
    instruction: str = ""
    """Text that says what to look for, for models that take one. Empty: the one they were trained on."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(self.first[index % len(self.first)], other) for index, other in enumerate(self.second)]

    def cosines(self, vectors: Sequence[Sequence[float]]) -> list[float]:
        """Returns how close the texts of each pair are, from the embeddings of the first list and of the second."""
        count = len(self.first)
        return [cosine(vectors[index % count], other) for index, other in enumerate(vectors[count:])]


def highest(scores: Sequence[float], count: int | None) -> list[int]:
    """Returns the places of the highest scores, the highest first, at most `count`. Equal ones keep their order."""
    return sorted(range(len(scores)), key=lambda index: (-scores[index], index))[:count]


def sigmoid(score: float) -> float:
    """Returns the probability that a score stands for: 1 / (1 + exp(-score)), in [0, 1]."""
    # Without overflow for scores of any size.
    return 1.0 / (1.0 + math.exp(-score)) if score >= 0 else math.exp(score) / (1.0 + math.exp(score))


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the cosine of the angle between two vectors, in [-1, 1]; 0 where one has no length."""
    dot = math.fsum(one * two for one, two in zip(first, second, strict=True))
    lengths = math.sqrt(math.fsum(one * one for one in first) * math.fsum(two * two for two in second))
    return max(-1.0, min(1.0, dot / lengths)) if lengths else 0.0
