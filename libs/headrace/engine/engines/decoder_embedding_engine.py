"""The engine that makes embeddings with a decoder: the hidden state of an input's last token, as Qwen3-Embedding's."""

from dataclasses import replace

import numpy as np

from headrace.domain.step_times import StepTimes
from headrace.engine.batching.batcher import Batcher
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.step_plan import Sample, StepPlan
from headrace.engine.contract.embedding_request_check import check_embedding_request
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats, SamplingParams
from headrace.engine.engines.embedding_outcomes import EmbeddingOutcomes
from headrace.engine.engines.vector_head import VectorHead
from headrace.engine.step.runner import Runner

_ONE_TOKEN = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)


class DecoderEmbeddingEngine:
    """Prefill and nothing after it: chunked, batched and cached as for text. See the Protocol in `engine.py`.

    To the batcher each input is a request for one token; where that token would be chosen, the hidden state is taken.
    """

    def __init__(self, spec: EngineSpec, runner: Runner, head: VectorHead, *, prefix_cache: bool) -> None:
        self._spec = spec
        self._runner = runner
        self._head = head
        self._batcher = Batcher(replace(spec, max_model_length=spec.max_model_length + 1), prefix_cache=prefix_cache)
        self._outcomes = EmbeddingOutcomes()

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def identify(self, fingerprint: str) -> None:
        """Takes the digest of what the model makes into the spec: it is known only once the engine has run."""
        self._spec = replace(self._spec, fingerprint=fingerprint)

    def add(self, request: EngineRequest) -> None:
        check_embedding_request(request, self._spec)
        self._batcher.add(replace(request, sampling=_ONE_TOKEN, output_token_ids=()))

    def cancel(self, request_id: str) -> None:
        self._batcher.cancel(request_id)
        self._outcomes.discard(request_id)

    def has_work(self) -> bool:
        return self._batcher.has_work() or bool(self._outcomes)

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        if not self._outcomes.has_failures:
            plan = self._batcher.plan()
            if plan.chunks:
                self._compute(plan)
        return self._outcomes.take()

    def stats(self) -> EngineStats:
        return self._batcher.stats()

    def drain_block_events(self) -> BlockEvents:
        return self._batcher.drain_block_events()

    def check_invariants(self) -> None:
        self._batcher.check_invariants()

    def close(self) -> None:
        """Lets go of model and KV cache."""
        del self._runner

    def _compute(self, plan: StepPlan) -> None:
        """Runs the plan and ends the requests whose last token was in it."""
        states = self._runner.run(plan)
        for chunk, state in zip(states.sampling, self._runner.sampler.in_host_memory(states.values), strict=True):
            sequence = chunk.sequence
            vector = self._head(state[None])
            if not np.isfinite(vector).all():
                self._forget(sequence)
            self._outcomes.complete(sequence.request_id, vector, sequence.cached_token_count)
        self._batcher.record(plan, {chunk: Sample(0) for chunk in plan.chunks if chunk.is_sampled})

    def _forget(self, sequence: Sequence) -> None:
        """Drops a sequence that went wrong, with everything that it put into the KV cache."""
        self._batcher.pool.forget(sequence.held_blocks)
        self._runner.clear(sequence.held_blocks)
        self._batcher.cancel(sequence.request_id)
