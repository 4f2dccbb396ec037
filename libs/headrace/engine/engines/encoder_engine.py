"""The engine that makes embeddings or scores with an encoder: whole inputs in, one vector each out."""

from dataclasses import replace

from headrace.domain.step_times import StepTimes
from headrace.engine.contract.embedding_request_check import check_embedding_request
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.model_cost import StepWork
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats
from headrace.engine.engines.embedding_outcomes import EmbeddingOutcomes
from headrace.engine.engines.vector_head import VectorHead
from headrace.engine.step.encoder import Encoder
from headrace.errors.tree import InvalidRequest


class EncoderEngine:
    """Computes the most urgent inputs first, in the order in which they came, as many in a step as its token budget
    allows.

    See the Protocol in `engine.py`. Nothing is kept between steps: there are no KV blocks. An input that is longer
    than the budget is computed alone. Sampling parameters mean nothing here and are not looked at.
    """

    def __init__(self, spec: EngineSpec, encoder: Encoder, head: VectorHead) -> None:
        self._spec = spec
        self._encoder = encoder
        self._head = head
        self._requests: dict[str, EngineRequest] = {}
        """Requests by id, in the order in which they came."""
        self._outcomes = EmbeddingOutcomes()
        self._step_count = 0
        self._prompt_token_count = self._pair_count = 0

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def identify(self, fingerprint: str) -> None:
        """Takes the digest of what the model makes into the spec: it is known only once the engine has run."""
        self._spec = replace(self._spec, fingerprint=fingerprint)

    def add(self, request: EngineRequest) -> None:
        check_embedding_request(request, self._spec)
        if request.request_id in self._requests:
            raise InvalidRequest(f"request {request.request_id!r} is already running: choose another id")
        self._requests[request.request_id] = request

    def cancel(self, request_id: str) -> None:
        self._requests.pop(request_id, None)
        self._outcomes.discard(request_id)

    def has_work(self) -> bool:
        return bool(self._requests or self._outcomes)

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        if self._requests and not self._outcomes.has_failures:
            self._compute(self._take_batch())
        return self._outcomes.take()

    def stats(self) -> EngineStats:
        """Counts every request that it holds as running: it has room for as many as it grants."""
        return EngineStats(
            running_count=len(self._requests),
            waiting_count=0,
            block_count=0,
            used_block_count=0,
            step_count=self._step_count,
            preemption_count=0,
            prompt_token_count=self._prompt_token_count,
            output_token_count=0,
            prefix_hit_token_count=0,
            waiting_token_count=sum(len(request.prompt_token_ids) for request in self._requests.values()),
            work=StepWork(self._step_count, self._prompt_token_count, 0, self._pair_count),
        )

    def drain_block_events(self) -> BlockEvents:
        return BlockEvents()

    def close(self) -> None:
        """Lets go of the model."""
        del self._encoder

    def _take_batch(self) -> list[EngineRequest]:
        """The most urgent requests, the oldest of them first, within the token budget; at least one."""
        batch: list[EngineRequest] = []
        budget = self._spec.max_step_token_count
        for request in sorted(self._requests.values(), key=lambda request: request.urgency):
            budget -= len(request.prompt_token_ids)
            if batch and (budget < 0 or len(batch) == self._spec.max_running_count):
                break
            batch.append(request)
        for request in batch:
            del self._requests[request.request_id]
        return batch

    def _compute(self, batch: list[EngineRequest]) -> None:
        """Computes the inputs and pools them one by one: a reduction over several would sum in another order."""
        states = self._encoder([request.prompt_token_ids for request in batch])
        for request, hidden in zip(batch, states, strict=True):
            self._outcomes.complete(request.request_id, self._head(hidden))
        self._step_count += 1
        self._prompt_token_count += sum(len(request.prompt_token_ids) for request in batch)
        self._pair_count += sum(len(request.prompt_token_ids) ** 2 for request in batch)
