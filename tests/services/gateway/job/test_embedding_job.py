"""Requests for embeddings: what they may ask for, and what they become."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.domain.deadline import Deadline
from headrace.domain.ids import RequestId
from headrace.errors import InternalError, InvalidRequest
from headrace.gateway.access.tenant import Tenant
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.embedding_job import EmbeddingJob, EmbeddingOptions
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.envelope import Envelope
from headrace.v1.generation_pb2 import FINISH_REASON_STOP
from headrace.v1.worker_pb2 import TokenDelta

MODEL = ModelFacts("m", max_model_length=8, vocabulary_size=100, embedding_size=4, fingerprint="f")


def envelope(tenant: str = "public", *, use_cache: bool = True) -> Envelope:
    return Envelope(RequestId("r"), time.monotonic(), Deadline.after(5), Tenant(tenant), "", use_cache)


def job(*inputs: list[int], model: ModelFacts = MODEL, **options: Any) -> EmbeddingJob:
    return EmbeddingJob(envelope(), model, list(inputs), EmbeddingOptions(**options))


def test_each_input_is_a_sequence_of_its_own() -> None:
    first, second = job([1, 2], [3]).sequences()
    assert (first.request_id, first.prompt_token_ids) == ("r-0", [1, 2])
    assert (second.request_id, second.prompt_token_ids) == ("r-1", [3])
    assert first.embeds
    assert job([1, 2], [3]).token_count == 3


def test_a_model_without_a_fingerprint_is_not_remembered() -> None:
    nameless = ModelFacts("m", max_model_length=8, vocabulary_size=100, embedding_size=4)
    assert not job([1], model=nameless).sequences()[0].use_cache
    assert job([1]).sequences()[0].use_cache


@pytest.mark.parametrize(
    ("token_ids", "message"),
    [
        ([], "input 1 is empty"),
        ([1] * 9, "too long: 9 tokens > 8 maximum.*shorten or split input 1.*truncate_prompt_tokens"),
        ([100], r"token id 100 is not in the vocabulary \(0 to 99\)"),
    ],
)
def test_inputs_that_could_never_run(token_ids: list[int], message: str) -> None:
    job([1] * 8, [99]).check()
    with pytest.raises(InvalidRequest, match=message) as caught:
        job([1], token_ids).check()
    assert caught.value.param == "input"


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"dimension_count": 0}, "dimensions"),
        ({"dimension_count": 5}, "dimensions"),
        ({"max_token_count": 0}, "truncate_prompt_tokens"),
        ({"max_token_count": 9}, "truncate_prompt_tokens"),
        ({"max_token_count": -2}, "truncate_prompt_tokens"),
    ],
)
def test_options_that_the_model_cannot_meet(options: dict[str, Any], param: str) -> None:
    EmbeddingOptions(dimension_count=4, max_token_count=8).check(MODEL)
    with pytest.raises(InvalidRequest) as caught:
        EmbeddingOptions(**options).check(MODEL)
    assert caught.value.param == param


def test_minus_one_means_as_much_as_the_model_reads() -> None:
    assert EmbeddingOptions(max_token_count=-1).limit(MODEL) == 8
    assert EmbeddingOptions(max_token_count=3).limit(MODEL) == 3
    assert EmbeddingOptions().limit(MODEL) is None


class FakeCache:
    """Remembers; says how often it knew."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], bytes] = {}
        self.hits = 0

    async def lookup_response(self, tenant: str, key: bytes, timeout: float) -> bytes | None:
        self.hits += (tenant, key) in self.kept
        return self.kept.get((tenant, key))

    async def store_response(self, tenant: str, key: bytes, value: bytes, timeout: float) -> None:
        self.kept[tenant, key] = value


def remembered(cache: FakeCache, values: Sequence[float]) -> None:
    """Puts one embedding where every key that was asked for would find it."""
    delta = TokenDelta(finish_reason=FINISH_REASON_STOP)
    delta.embedding.values.extend(values)
    cache.kept = dict.fromkeys(cache.kept, delta.SerializeToString())


def sequence(**changes: Any) -> SequenceRequest:
    model = replace(MODEL, fingerprint=changes.get("fingerprint", "f"))
    made = EmbeddingJob(
        envelope(changes.get("tenant", "public"), use_cache=changes.get("use_cache", True)),
        model,
        [changes.get("token_ids", [1, 2])],
        EmbeddingOptions(),
    )
    return made.sequences()[0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("changes", "is_known"),
    [
        ({}, True),
        ({"token_ids": [2, 1]}, False),
        ({"tenant": "other"}, False),
        ({"fingerprint": "other weights"}, False),
        ({"use_cache": False}, False),
    ],
)
async def test_an_embedding_is_remembered_by_tenant_weights_and_tokens(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], is_known: bool
) -> None:
    cache, nobody = FakeCache(), None

    class Computed:
        """Stands for the workers."""

        def __init__(self, *_: Any) -> None: ...

        async def deltas(self) -> Any:
            delta = TokenDelta(finish_reason=FINISH_REASON_STOP)
            delta.embedding.values.append(0.25)
            yield delta

    monkeypatch.setattr("headrace.gateway.delivery.pipeline.TokenStream", Computed)
    pipeline = Pipeline(GatewaySettings(), nobody, nobody, cache, nobody)  # type: ignore[arg-type]
    assert list((await pipeline.embedding(sequence())).values) == [0.25]
    remembered(cache, [0.75])
    found = list((await pipeline.embedding(sequence(**changes))).values)
    assert found == ([0.75] if is_known else [0.25])
    assert cache.hits == is_known


@pytest.mark.anyio
async def test_a_stream_without_an_embedding_is_our_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        def __init__(self, *_: Any) -> None: ...

        async def deltas(self) -> Any:
            yield TokenDelta(finish_reason=FINISH_REASON_STOP)

    monkeypatch.setattr("headrace.gateway.delivery.pipeline.TokenStream", Silent)
    pipeline = Pipeline(GatewaySettings(), *[None] * 4)  # type: ignore[arg-type]
    with pytest.raises(InternalError, match="r-0 ended without its embedding"):
        await pipeline.embedding(sequence(use_cache=False))
