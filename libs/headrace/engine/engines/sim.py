"""An engine without a model: predictable tokens at a chosen pace. Batcher and block pool are the real ones."""

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from headrace.domain.step_times import StepTimes
from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk, Sample, StepPlan
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats, TokenLogprob
from headrace.errors.tree import Unsupported


@dataclass(frozen=True, slots=True)
class SimConfig:
    """The model that is played, and its speed."""

    vocabulary_size: int = 32_000
    max_model_length: int = 4096
    """Longest prompt plus output, in tokens."""
    long_context: Literal["stop", "evict"] = "stop"
    """Behavior when a request reaches `max_model_length`."""
    block_size: int = 16
    """Tokens per KV block."""
    block_count: int = 4096
    max_running_count: int = 64
    max_step_token_count: int = 512
    max_step_seconds: float = 0.2
    """Seconds that a step which reads prompts should take at most for the sequences that decode. 0: any time."""
    prefix_cache: bool = True
    adapters: tuple[str, ...] = ()
    """Adapters that requests may choose. They change nothing."""
    base_seconds: float = 0.0
    """Seconds that any step takes."""
    prefill_seconds_per_token: float = 0.0
    decode_seconds_per_sequence: float = 0.0
    context_seconds_per_token: float = 0.0
    """Seconds for each token whose keys and values a step reads."""
    eos_token_id: int = 0
    """Generated only where `output_token_count` says so."""
    output_token_count: int | None = None
    """Tokens after which every output ends with the end-of-sequence id. Unset leaves it to `max_tokens`."""

    def spec(self) -> EngineSpec:
        """Returns the facts that an engine of this model reports."""
        return EngineSpec(
            architecture="sim",
            vocabulary_size=self.vocabulary_size,
            max_model_length=self.max_model_length,
            max_running_count=self.max_running_count,
            max_step_token_count=self.max_step_token_count,
            max_step_seconds=self.max_step_seconds,
            block_size=self.block_size,
            long_context=self.long_context,
            block_count=self.block_count,
            eos_token_ids=frozenset({self.eos_token_id}),
            device="cpu",
            precision="none",
            parameter_count=0,
            adapters=dict.fromkeys(self.adapters, ""),
        )

    def step_seconds(self, plan: StepPlan) -> float:
        """Returns the seconds that a step takes. A plan without chunks takes none."""
        if not plan.chunks:
            return 0.0
        decode_count = plan.decode_count
        prefill_token_count = plan.token_count - decode_count
        read_count = sum(chunk.computed_end for chunk in plan.chunks) if self.context_seconds_per_token else 0
        return (
            self.base_seconds
            + prefill_token_count * self.prefill_seconds_per_token
            + decode_count * self.decode_seconds_per_sequence
            + read_count * self.context_seconds_per_token
        )


class SimEngine:
    """Plays a model. Each token is a function of the prompt and its position alone."""

    def __init__(
        self,
        config: SimConfig,
        clock: Callable[[], float] = time.monotonic,
        wait_until: "Callable[[float], None] | None" = None,
    ) -> None:
        """Keeps time by `clock`, in seconds, and passes it by `wait_until`, which sleeps unless given."""
        self._config = config
        self._clock = clock
        self._wait_until = wait_until or _sleep_until
        self._spec = config.spec()
        self._batcher = Batcher(self._spec, prefix_cache=config.prefix_cache)

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def add(self, request: EngineRequest) -> None:
        if grammar := request.sampling.grammar:
            raise Unsupported("the sim engine has no vocabulary and so no structured output", param=grammar.param)
        self._batcher.add(request)

    def cancel(self, request_id: str) -> None:
        self._batcher.cancel(request_id)

    def has_work(self) -> bool:
        return self._batcher.has_work()

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        started = self._clock()
        plan = self._batcher.plan(times)
        samples = {chunk: self._sample(chunk) for chunk in plan.chunks}
        self._wait_until(started + self._config.step_seconds(plan))
        return self._batcher.record(plan, samples)

    def stats(self) -> EngineStats:
        return self._batcher.stats()

    def drain_block_events(self) -> BlockEvents:
        return self._batcher.drain_block_events()

    def check_invariants(self) -> None:
        self._batcher.check_invariants()

    def close(self) -> None:
        """Releases nothing: there is nothing to release."""

    def _sample(self, chunk: Chunk) -> Sample:
        sequence = chunk.sequence
        scored = [TokenLogprob(sequence.token_ids[index], logprob=-1.0) for index in chunk.scored_prompt_range]
        if not chunk.is_sampled:
            return Sample(prompt_logprobs=scored)
        token_id = self._token(sequence)
        wants_logprob = sequence.request.sampling.logprob_count is not None
        logprobs = (TokenLogprob(token_id, logprob=-1.0),) if wants_logprob else ()
        return Sample(token_id, logprobs=logprobs, prompt_logprobs=scored)

    def _token(self, sequence: Sequence) -> int:
        position = sequence.output_count
        ends_here = self._config.output_token_count is not None and position + 1 >= self._config.output_token_count
        if ends_here and not sequence.stop_is_banned:
            return self._config.eos_token_id
        return predicted_token(
            sequence.request.prompt_token_ids, position, self._config.vocabulary_size, self._config.eos_token_id
        )


def predicted_token(prompt_token_ids: tuple[int, ...], position: int, vocabulary_size: int, eos_token_id: int) -> int:
    """The id that SimEngine generates at `position` of the output: uniform over the vocabulary but for the end."""
    prompt = struct.pack(f"<{len(prompt_token_ids)}I", *prompt_token_ids)
    digest = blake2b(prompt + struct.pack("<I", position), digest_size=8).digest()
    token_id = int.from_bytes(digest, "little") % (vocabulary_size - 1)
    return token_id + (token_id >= eos_token_id)


def _sleep_until(deadline: float) -> None:
    left = deadline - time.monotonic()
    if left > 0:
        time.sleep(left)
