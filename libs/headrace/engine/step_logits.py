"""What a model hands back for a step."""

from collections.abc import Sequence as Chunks
from dataclasses import dataclass

from headrace.engine.sampling.sampler import Logits
from headrace.engine.sequence import Sequence
from headrace.engine.step_plan import Chunk


@dataclass(frozen=True, slots=True)
class StepLogits:
    """Logits of a step's rows, and which chunk each row belongs to."""

    values: Logits
    """fp32 [rows, vocabulary]: one row for each token that is sampled from, then the scored prompt rows."""
    sampling: tuple[Chunk, ...]
    """The chunk of each of the first rows."""
    scoring: tuple[Chunk, ...]
    """Chunks with scored prompt tokens, whose rows follow in order: `len(chunk.scored_prompt_range)` each."""

    def owners(self, rows: list[int]) -> list[Sequence]:
        """The sequences that `rows` belong to."""
        chunks = [*self.sampling, *(chunk for chunk in self.scoring for _ in chunk.scored_prompt_range)]
        return [chunks[row].sequence for row in rows]


@dataclass(frozen=True, slots=True)
class LogitRows:
    """The tokens of a step whose logits are wanted."""

    rows: list[int]
    """Indices among the tokens of all chunks, one chunk after the other."""
    sampling: tuple[Chunk, ...]
    scoring: tuple[Chunk, ...]
    """See StepLogits."""

    @classmethod
    def of(cls, chunks: Chunks[Chunk]) -> "LogitRows":
        sampled: list[int] = []
        scored: list[int] = []
        sampling: list[Chunk] = []
        scoring: list[Chunk] = []
        first = 0
        for chunk in chunks:
            end = first + chunk.token_count
            if chunk.samples and not chunk.draft:
                sampled.append(end - 1)
                sampling.append(chunk)
            elif chunk.samples:
                row_count = 1 + len(chunk.draft)
                sampled += range(end - row_count, end)
                sampling += [chunk] * row_count
            if chunk.sequence.wants_prompt_logprobs and (indices := chunk.scored_prompt_range):
                scored += [first + index - 1 - chunk.start for index in indices]
                scoring.append(chunk)
            first = end
        return cls(sampled + scored, tuple(sampling), tuple(scoring))

    def filled(self, values: Logits) -> StepLogits:
        return StepLogits(values, self.sampling, self.scoring)
