"""A request on its way through the platform, with services that are away."""

from typing import Any

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.encoded import Encoded
from headrace.domain.ids import RequestId, SequenceId
from headrace.domain.to_encode import TextToEncode, ToEncode
from headrace.errors import DeadlineExceeded, InvalidRequest, Unavailable
from headrace.gateway.access.tenant import Tenant
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.delivery.response_memory import ResponseMemory, cache_key
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.model_facts import AdapterFacts, ModelFacts
from headrace.gateway.fleet.worker_facts import WorkerFacts
from headrace.gateway.job.embedding_job import WHOLE_CONTEXT, EmbeddingOptions
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.envelope import Envelope
from headrace.v1.generation_pb2 import PRIORITY_CLASS_BATCH

pytestmark = pytest.mark.anyio


class FakeTokenizer:
    """A tokenizer that is away for a number of calls."""

    def __init__(self, absences: int) -> None:
        self._absences = absences
        self.models: list[str] = []

    async def encode(self, wanted: ToEncode, timeout: float) -> Encoded:
        self._absences -= 1
        if self._absences >= 0:
            raise Unavailable("connection refused", stage="tokenize")
        self.models.append(wanted.model)
        return Encoded([1, 2])


def make(absences: int, tokenizer: Any = None) -> Pipeline:
    nobody: Any = None
    fleet = Fleet(GatewaySettings(), nobody)
    facts = ModelFacts("m", adapters=(AdapterFacts("tuned", "f"),))
    fleet._workers["w"], fleet._heard["w"] = WorkerFacts("w", facts), float("inf")
    asked: Any = tokenizer or FakeTokenizer(absences)
    return Pipeline(GatewaySettings(), asked, nobody, nobody, fleet)


async def test_a_tokenizer_that_is_replaced_is_waited_for() -> None:
    assert (await make(2).encoder.encode(TextToEncode("m", "x"), Deadline.after(5))).token_ids == [1, 2]


async def test_a_tokenizer_that_stays_away_ends_in_the_deadline() -> None:
    with pytest.raises(DeadlineExceeded) as failure:
        await make(1000).encoder.encode(TextToEncode("m", "x"), Deadline.after(0.15))
    assert failure.value.stage == "tokenize"


async def test_an_adapter_has_the_tokenizer_of_its_parent() -> None:
    tokenizer = FakeTokenizer(0)
    pipeline = make(0, tokenizer)
    for model in ("m", "tuned", "unknown"):
        await pipeline.encoder.encode(TextToEncode(model, "x"), Deadline.after(5))
    assert tokenizer.models == ["m", "m", "unknown"]


class Encoder:
    """Refuses what is longer than it is told, as the tokenizer does."""

    def __init__(self) -> None:
        self.limits: list[tuple[int | None, int | None]] = []

    async def encode(self, wanted: TextToEncode, timeout: float) -> Encoded:
        limit, context = wanted.max_token_count, wanted.context_token_count
        self.limits.append((limit, context))
        if context is not None and len(wanted.text) > context:
            raise InvalidRequest("too long", param="prompt")
        return Encoded([1])


async def test_inputs_of_embeddings_are_measured_before_they_are_encoded() -> None:
    encoder = Encoder()
    pipeline = make(0, encoder)
    facts = ModelFacts("e", max_model_length=64, vocabulary_size=10, embedding_size=4)
    pipeline.fleet._workers["w"] = WorkerFacts("w", facts)
    envelope = Envelope(RequestId("r"), 0.0, Deadline.after(5), Tenant("t"), "", False)
    with pytest.raises(InvalidRequest) as refused:
        await pipeline.prepare.embeddings("e", ["a", "a" * 65], EmbeddingOptions(), envelope)
    assert refused.value.param == "input"
    await pipeline.prepare.embeddings("e", ["a" * 65], EmbeddingOptions(max_token_count=WHOLE_CONTEXT), envelope)
    assert encoder.limits == [(None, 64), (None, 64), (64, None)]


def sequence(model: str, fingerprint: str) -> SequenceRequest:
    envelope = Envelope(RequestId("r"), 0.0, Deadline.after(1), Tenant("t"), "", use_cache=True)
    facts = ModelFacts(model, fingerprint=fingerprint)
    return SequenceRequest(SequenceId("r"), envelope, facts, [1, 2], Sampling(), PRIORITY_CLASS_BATCH)


def test_remembered_answers_are_of_one_adapter_and_its_weights() -> None:
    requests = [sequence("m", ""), sequence("tuned", "f"), sequence("tuned", "other"), sequence("tuned2", "f")]
    assert len({cache_key(each) for each in requests}) == len(requests)
    assert cache_key(sequence("tuned", "f")) == cache_key(sequence("tuned", "f"))


async def test_a_cache_that_returns_nonsense_remembers_nothing() -> None:
    class Corrupt:
        async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None:
            return b"\xff\xff nonsense"

    memory = ResponseMemory(Corrupt())  # type: ignore[arg-type]
    assert await memory._recall(sequence("m", "f"), b"key") is None
