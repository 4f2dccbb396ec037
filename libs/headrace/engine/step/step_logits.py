"""Logits that a model hands back for a step."""

from collections.abc import Sequence as Chunks
from dataclasses import dataclass

from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk
from headrace.engine.step.sampler import Logits


@dataclass(frozen=True, slots=True)
class StepLogits:
    """Logits of a step's rows, and which chunk each row belongs to."""

    values: Logits
    """Logits fp32 [rows, vocabulary]: one row for each token that is sampled from, then the scored prompt rows."""
    sampling: tuple[Chunk, ...]
    """Chunks with tokens that are sampled from, whose rows come first: one, and one for each draft token."""
    scoring: tuple[Chunk, ...]
    """Chunks with scored prompt tokens, whose rows follow: `len(chunk.scored_prompt_range)` each."""

    @property
    def sampled_chunks(self) -> list[Chunk]:
        """The chunk of each of the first rows."""
        return [chunk for chunk in self.sampling for _ in range(1 + len(chunk.draft))]

    @property
    def sampled_sequences(self) -> list[Sequence]:
        """The text that each of the first rows continues."""
        sequences: list[Sequence] = []
        for chunk in self.sampling:
            if chunk.draft:
                sequences += chunk.sampled_sequences
            else:
                sequences.append(chunk.sequence)
        return sequences

    def owners(self, rows: list[int]) -> list[Sequence]:
        """The sequences that `rows` belong to."""
        chunks = [*self.sampled_chunks, *(chunk for chunk in self.scoring for _ in chunk.scored_prompt_range)]
        return [chunks[row].sequence for row in rows]


@dataclass(frozen=True, slots=True)
class LogitRows:
    """The tokens of a step whose logits are wanted."""

    rows: list[int]
    """Indices among the tokens of all chunks, one chunk after the other."""
    sampling: tuple[Chunk, ...]
    scoring: tuple[Chunk, ...]
    """Chunks with scored prompt tokens, see StepLogits."""

    @classmethod
    def of(cls, chunks: Chunks[Chunk]) -> "LogitRows":
        sampled: list[int] = []
        scored: list[int] = []
        sampling: list[Chunk] = []
        scoring: list[Chunk] = []
        first = 0
        for chunk in chunks:
            end = first + chunk.token_count
            if chunk.draft:
                sampled += range(end - 1 - len(chunk.draft), end)
            elif chunk.is_sampled:
                sampled.append(end - 1)
            if chunk.is_sampled:
                sampling.append(chunk)
            if chunk.start < chunk.sequence.prompt_count and (indices := chunk.scored_prompt_range):
                scored += [first + index - 1 - chunk.start for index in indices]
                scoring.append(chunk)
            first = end
        return cls(sampled + scored, tuple(sampling), tuple(scoring))

    def filled(self, values: Logits) -> StepLogits:
        return StepLogits(values, self.sampling, self.scoring)
