"""Load on an engine in this process: the same requests again and again, and the time that they take."""

import random
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.loading.load_text_engine import load_text_engine

Prompt = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of some requests that were answered at once."""

    first_seconds: float
    """Seconds until all had their first token."""
    tokens_per_second: float
    """Output tokens of all together per second, from there until the first one ended."""
    cached_share: float
    """Share of the prompts' tokens found in the prefix cache."""


class EngineLoad:
    """An engine, loaded for as long as the context lasts. Raises what `load_text_engine` raises."""

    def __init__(self, source: Path, config: EngineConfig) -> None:
        self.engine = load_text_engine(source, config)
        self._numbers = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.close()

    def prompts(self, number: int, length: int, seed: int) -> list[Prompt]:
        """Draws prompts of random tokens, which share nothing."""
        draw = random.Random(seed)  # noqa: S311 - nothing secret
        size = self.engine.spec.vocabulary_size
        return [tuple(draw.randrange(size) for _ in range(length)) for _ in range(number)]

    def continuation(self, prompt: Prompt, output_tokens: int) -> Prompt:
        """Returns the most likely tokens after a prompt."""
        sampling = SamplingParams(max_tokens=output_tokens, temperature=0, ignore_eos=True)
        self.engine.add(EngineRequest(str(next(self._numbers)), prompt, sampling))
        tokens: list[int] = []
        while self.engine.has_work():
            tokens += (token for delta in self.engine.step() for token in delta.token_ids)
        return tuple(tokens)

    def answer(self, prompts: list[Prompt], output_tokens: int) -> Timing:
        """Answers all prompts at once, greedily, with `output_tokens` each."""
        before = self.engine.stats().prefix_hit_token_count
        sampling = SamplingParams(max_tokens=output_tokens, temperature=0, ignore_eos=True)
        waiting = set()
        for prompt in prompts:
            name = str(next(self._numbers))
            waiting.add(name)
            self.engine.add(EngineRequest(name, prompt, sampling))
        started = time.perf_counter()
        first_time = end_time = 0.0
        token_count = 0
        while self.engine.has_work():
            deltas = self.engine.step()
            now = time.perf_counter()
            if first_time and not end_time:
                token_count += sum(len(delta.token_ids) for delta in deltas)
            waiting -= {delta.request_id for delta in deltas}
            first_time = first_time or (0.0 if waiting else now)
            if any(delta.finish_reason for delta in deltas):
                end_time = end_time or now
        read = sum(map(len, prompts))
        cached = self.engine.stats().prefix_hit_token_count - before
        rate = token_count / (end_time - first_time) if end_time > first_time else 0.0
        return Timing(first_time - started, rate, cached / read)
