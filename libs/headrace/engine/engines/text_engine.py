"""The engine that makes text with a model. Knows no architecture and no library of tensors: its runner does."""

import math
import time
from collections import deque
from itertools import islice

from headrace.domain.step_times import StepTimes
from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Chunk, Sample, StepPlan
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats
from headrace.engine.engines.flight import Flight
from headrace.engine.engines.grammar_queue import GrammarQueue
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.engine.grammar.grammar_refusal import refusal
from headrace.engine.kv.block_store import store_of
from headrace.engine.kv.cached_blocks import CachedBlocks
from headrace.engine.memory.offload import offload_of
from headrace.engine.speculation.speculator import Speculator
from headrace.engine.step.launching.launcher import Launcher
from headrace.engine.step.runner import Runner
from headrace.engine.step.step_logits import StepLogits
from headrace.errors.tree import HeadraceError, InternalError

GRAMMAR_PATIENCE = 0.01
"""Seconds that a step without other work waits for a grammar. Cancellations wait as long."""


class TextEngine:
    """Continuous batching over a paged KV cache. See the Protocol in `engine.py`.

    When a request's logits are not finite, `step` raises an InternalError whose details name the request under
    `request_id`; when its grammar cannot be compiled or followed, an InvalidRequest. That request is forgotten; the
    other requests' deltas come with the next call.
    """

    def __init__(
        self,
        spec: EngineSpec,
        runner: Runner,
        compiler: GrammarCompiler,
        speculator: Speculator | None,
        *,
        prefix_cache: bool,
        launcher: Launcher | None = None,
    ) -> None:
        """Makes an engine over a runner. Where it has a `launcher`, a step is launched before the one before it is
        waited for."""
        self._spec = spec
        self._runner = runner
        self._launcher = launcher
        self._flight: Flight | None = None
        """Step whose outcome is not known yet."""
        self._speculator = speculator
        self._batcher = Batcher(spec, prefix_cache=prefix_cache, drafter=speculator)
        self._deltas: list[Delta] = []
        """Deltas that are ready, but held back by a failure."""
        self._failures: deque[HeadraceError] = deque()
        self._grammars = GrammarQueue(compiler)
        self._is_asleep = False
        self._offload = offload_of(runner)
        is_whole = spec.window is None and spec.snapshot_count is None
        store = store_of(runner) if prefix_cache and is_whole and spec.fingerprint else None
        kind = type(runner).__name__
        self.exchange = None if store is None else CachedBlocks(spec, kind, store, self._batcher.leases)
        """The prefix cache for other engines. None: it may lack blocks of a prompt, or they cannot be copied, or do not
        say all that its next token depends on."""

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def add(self, request: EngineRequest) -> None:
        sequence = self._batcher.add(request)
        if sequence.awaits_grammar and (grammar := request.sampling.grammar):
            self._grammars.enqueue(sequence, grammar)

    def cancel(self, request_id: str) -> None:
        self._batcher.cancel(request_id)
        self._grammars.discard(request_id)
        self._deltas = [delta for delta in self._deltas if delta.request_id != request_id]

    def has_work(self) -> bool:
        if self._deltas or self._failures or self._flight is not None:
            return True
        return self._batcher.has_work() and not self._is_asleep

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        if not self._failures and not self._is_asleep:
            self._release_compiled()
            self._advance(times)
        if self._failures:
            raise self._failures.popleft()
        deltas, self._deltas = self._deltas, []
        return deltas

    def stats(self) -> EngineStats:
        return self._batcher.stats()

    def drain_block_events(self) -> BlockEvents:
        return self._batcher.drain_block_events()

    @property
    def sleeps_on_host(self) -> bool:
        """Whether the weights are in the memory of the host while the engine sleeps."""
        return self._spec.device == "cpu" or self._offload is not None

    def sleep(self, *, in_place: bool = False) -> None:
        """Gives the KV cache's memory back to the system and keeps the weights in the memory of the host (level 1 of
        vLLM's sleep mode), or `in_place` where they are.

        Until `wake`, requests can be added and cancelled, but none is worked on. Running requests continue afterwards
        with the same tokens. The prefix cache is forgotten. Raises MemoryError if the host has no room; then the
        weights are where they were.
        """
        if not self._is_asleep:
            self._is_asleep = True
            if self._flight is not None:
                self._land(self._flight)
            self._batcher.evacuate()
            for part in self._sleepers:
                part.sleep()
        if self._offload is not None and not in_place:
            self._offload.offload()

    def wake(self) -> None:
        """Ends `sleep`. Raises an out-of-memory error if the device has no room, and can be called again then."""
        if self._is_asleep:
            if self._offload is not None:
                self._offload.restore()
            for part in self._sleepers:
                part.wake()
            self._is_asleep = False

    def limit_step(self, token_count: int | None) -> None:
        """Computes at most so many tokens in a step from now on. None: as many as the spec allows."""
        most = self._spec.max_step_token_count
        self._batcher.step_token_limit = most if token_count is None else min(token_count, most)

    @property
    def _sleepers(self) -> list[Runner | Speculator]:
        return [self._runner] if self._speculator is None else [self._runner, self._speculator]

    def check_invariants(self) -> None:
        self._batcher.check_invariants()

    def close(self) -> None:
        """Lets go of models and KV caches."""
        del self._runner, self._launcher, self._flight, self._speculator, self._offload
        self.exchange = None
        self._grammars.close()

    def _release_compiled(self) -> None:
        """Lets the sequences run whose grammar is ready. Waits a little for one if there is nothing else to do."""
        for readiness in self._grammars.take_ready(GRAMMAR_PATIENCE if self._batcher.only_holds else 0.0):
            if readiness.error is None:
                self._batcher.release(readiness.sequence)
            else:
                self._fail(readiness.sequence, readiness.error)

    def _fail(self, sequence: Sequence, error: HeadraceError) -> None:
        """Forgets a request. The error is raised by this step or a later one."""
        self._batcher.cancel(sequence.request_id)
        self._failures.append(error)

    def _advance(self, times: StepTimes | None) -> None:
        """Records a step: the one in flight, once the next is launched, or else one that is computed now."""
        if self._flight is not None:
            self._follow(self._flight, self._batcher.plan_ahead(times))
            return
        plan = self._batcher.plan(times)
        if self._launcher is not None and plan.chunks and plan.runs_ahead:
            self._take_off(Flight(plan, self._launcher.launch(plan)))
        else:
            samples = self._compute(plan) if plan.chunks else {}
            self._deltas += self._batcher.record(plan, samples)

    def _follow(self, flight: Flight, plan: StepPlan | None) -> None:
        """Launches the next step, if it can be planned, before the one in flight is recorded."""
        later = None
        try:
            if self._launcher is not None and plan is not None and plan.chunks:
                later = Flight(plan, self._launcher.launch(plan))
        finally:
            # A step that cannot be launched loses nothing of the one before it.
            self._land(flight)
        if later is not None:
            self._take_off(later)

    def _take_off(self, flight: Flight) -> None:
        self._flight = flight
        self._batcher.expect(flight.plan, flight.step.sampled)

    def _land(self, flight: Flight) -> None:
        """Waits for the step in flight, and records it."""
        self._flight = None
        token_ids, peaks = flight.step.wait()
        sampled = flight.step.sampled
        samples = {chunk: Sample(token_id) for chunk, token_id in zip(sampled, token_ids, strict=True)}
        broken = [chunk.sequence for chunk, peak in zip(sampled, peaks, strict=True) if not math.isfinite(peak)]
        self._drop_failed([sequence for sequence in broken if not sequence.forgotten])
        self._deltas += self._batcher.record(flight.plan, samples)

    def _compute(self, plan: StepPlan) -> dict[Chunk, Sample]:
        """Runs the plan and samples from it."""
        started = time.perf_counter()
        logits = self._runner.run(plan)
        samples: dict[Chunk, Sample] = {}
        if len(logits.values):
            best, peaks = self._runner.sampler.likeliest(logits.values)
            self._sample(logits, best, samples)
            self._score(logits, samples)
            if not all(map(math.isfinite, peaks)):
                self._drop_failed(logits.owners([row for row, peak in enumerate(peaks) if not math.isfinite(peak)]))
            self._drop_unmatched(logits.sampling)
        if self._speculator is not None and plan.only_decodes:
            self._speculator.observe_step(plan.token_count, time.perf_counter() - started)
        return samples

    def _sample(self, logits: StepLogits, best: list[int], samples: dict[Chunk, Sample]) -> None:
        """Chooses the tokens of the sampled rows. `best` has the most likely token of each row."""
        sequences = logits.sampled_sequences
        rows = logits.values[: len(sequences)]
        token_ids = self._runner.sampler.sample(rows, sequences, best[: len(sequences)])
        chosen = iter(token_ids)
        for chunk in logits.sampling:
            token_id = next(chosen)
            samples[chunk] = Sample(token_id)
            if chunk.draft:
                after = (token_id, *islice(chosen, len(chunk.draft)))
                samples[chunk].further_ids = _confirmed(chunk.draft, after)
        self._add_logprobs(logits, sequences, token_ids, samples)

    def _add_logprobs(
        self, logits: StepLogits, sequences: list[Sequence], token_ids: list[int], samples: dict[Chunk, Sample]
    ) -> None:
        """Adds log-probabilities to the samples, for every sampled token of the requests that want them."""
        wanted = [
            (row, count)
            for row, sequence in enumerate(sequences)
            if not sequence.takes_likeliest and (count := sequence.request.sampling.logprob_count) is not None
        ]
        if wanted:
            indices, counts = [index for index, _ in wanted], [count for _, count in wanted]
            chosen = [token_ids[index] for index in indices]
            found = self._runner.sampler.logprobs(logits.values[indices], chosen, counts)
            chunks = logits.sampled_chunks
            for index, logprob in zip(indices, found, strict=True):
                samples[chunks[index]].logprobs += (logprob,)

    def _score(self, logits: StepLogits, samples: dict[Chunk, Sample]) -> None:
        first = sum(1 + len(chunk.draft) for chunk in logits.sampling)
        for chunk in logits.scoring:
            indices = chunk.scored_prompt_range
            rows = logits.values[first : first + len(indices)]
            first += len(indices)
            count = chunk.sequence.request.sampling.prompt_logprob_count or 0
            prompt_ids = [chunk.sequence.token_ids[index] for index in indices]
            found = self._runner.sampler.logprobs(rows, prompt_ids, [count] * len(rows))
            samples.setdefault(chunk, Sample()).prompt_logprobs = found

    def _drop_failed(self, sequences: list[Sequence]) -> None:
        """Forgets requests whose logits are not finite, with everything that they put into the KV cache."""
        for sequence in dict.fromkeys(sequences):
            self._batcher.pool.forget(sequence.held_blocks)
            self._runner.clear(sequence.held_blocks)
            self._fail(
                sequence,
                InternalError(
                    f"the model's logits for request {sequence.request_id} are not finite",
                    stage="decode" if sequence.output_count > sequence.is_expectant else "prefill",
                    details={"request_id": sequence.request_id},
                ),
            )

    def _drop_unmatched(self, chunks: tuple[Chunk, ...]) -> None:
        """Forgets requests that their matcher could not follow."""
        for chunk in chunks:
            sequence, matcher = chunk.sequence, chunk.sequence.matcher
            if matcher is None:
                continue
            grammar = sequence.request.sampling.grammar
            if grammar and (error := matcher.error):
                refused = refusal(grammar, error)
                refused.details["request_id"] = sequence.request_id
                self._fail(sequence, refused)


def _confirmed(draft: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the tokens after the first of `chosen` up to and with the first that differs from the draft."""
    right = 0
    for drafted, token_id in zip(draft, chosen, strict=False):
        if drafted != token_id:
            break
        right += 1
    return chosen[1 : 1 + right]
