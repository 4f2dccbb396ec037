"""A model that scores pairs of texts, through the services: the probabilities that transformers computes."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform, running_platform
from tests.libs.engine.tiny_encoders import make_scorer, scores
from tests.libs.engine.tiny_rerankers import log_odds, make_reranker
from transformers import PreTrainedModel

from headrace.client import Headrace, Ranking
from headrace.domain.to_encode import TextToEncode
from headrace.tokenizer.text.text_model import TextModel
from headrace.v1 import inference_pb2, inference_pb2_grpc

QUERY = "w5 w6 w7"
DOCUMENTS = ["w8 w9", "w5 w6 w7", "w10 w11 w12 w13 w14", "w100"]


@pytest.fixture(scope="module")
def logits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[float]]:
    """A random BERT with a classifier, and its outputs for the query and each document."""
    folder = tmp_path_factory.mktemp("ranker")
    model = make_scorer(folder, "bert")
    return folder, scores(model, folder, [(QUERY, document) for document in DOCUMENTS])


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PreTrainedModel]:
    """A random causal model that answers with yes or no."""
    folder = tmp_path_factory.mktemp("asked")
    return folder, make_reranker(folder)


@pytest.fixture(scope="module")
def platform(
    tmp_path_factory: pytest.TempPathFactory,
    logits: tuple[Path, list[float]],
    asked: tuple[Path, PreTrainedModel],
) -> Iterator[RunningPlatform]:
    served = [f"ranker={logits[0]}", f"asked={asked[0]}"]
    with running_platform(tmp_path_factory.mktemp("ranking"), served, counts=()) as platform:
        yield platform


def post(platform: RunningPlatform, path: str, **fields: Any) -> httpx2.Response:
    return httpx2.post(f"{platform.http}{path}", json={"model": "ranker"} | fields, timeout=60)


def probability(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def test_documents_are_ranked_by_their_scores(platform: RunningPlatform, logits: tuple[Path, list[float]]) -> None:
    expected = sorted(enumerate(logits[1]), key=lambda pair: -pair[1])
    answer = post(platform, "/v1/rerank", query=QUERY, documents=DOCUMENTS).json()
    found = [(result["index"], result["relevance_score"]) for result in answer["results"]]
    assert [index for index, _ in found] == [index for index, _ in expected]
    assert [score for _, score in found] == pytest.approx([probability(logit) for _, logit in expected], abs=1e-4)
    assert answer["usage"]["total_tokens"] == 3 * len(DOCUMENTS) + 3 * len(DOCUMENTS) + 2 + 3 + 5 + 1
    raw = post(platform, "/rerank", query=QUERY, texts=DOCUMENTS, raw_scores=True).json()
    assert [each["index"] for each in raw] == [index for index, _ in expected]
    assert [each["score"] for each in raw] == pytest.approx([logit for _, logit in expected], abs=1e-4)
    (alone,) = post(platform, "/v1/rerank", query=QUERY, documents=DOCUMENTS[2:3]).json()["results"]
    assert (2, alone["relevance_score"]) in found


def test_a_causal_model_is_asked_for_yes_or_no(platform: RunningPlatform, asked: tuple[Path, PreTrainedModel]) -> None:
    folder, model = asked
    text = TextModel("asked", folder)
    documents = ["Ulm is on the Danube.", "Bonn is on the Rhine.", "No."]
    answer = post(platform, "/v1/rerank", model="asked", query="Where is Ulm?", documents=documents).json()
    for result in answer["results"]:
        wanted = TextToEncode("asked", "Where is Ulm?", True, pair_text=documents[result["index"]])
        expected = probability(log_odds(model, text.encode_text(wanted)))
        assert result["relevance_score"] == pytest.approx(expected, abs=1e-4)
    scores = [result["relevance_score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)


def test_it_is_told_what_to_look_for(platform: RunningPlatform, asked: tuple[Path, PreTrainedModel]) -> None:
    folder, model = asked
    wanted = TextToEncode("asked", "Where is Ulm?", pair_text="On the Danube.", instruction="Find towns")
    expected = probability(log_odds(model, TextModel("asked", folder).encode_text(wanted)))
    fields = {"model": "asked", "instruct": "Find towns"}
    ranked = post(platform, "/v1/rerank", query="Where is Ulm?", documents=["On the Danube."], **fields).json()
    scored = post(platform, "/v1/score", text_1="Where is Ulm?", text_2="On the Danube.", **fields).json()
    untold = post(platform, "/v1/score", model="asked", text_1="Where is Ulm?", text_2="On the Danube.").json()
    assert ranked["results"][0]["relevance_score"] == pytest.approx(expected, abs=1e-4)
    assert scored["data"][0]["score"] == ranked["results"][0]["relevance_score"] != untold["data"][0]["score"]


def test_the_client_ranks_over_http_and_grpc_alike(platform: RunningPlatform) -> None:
    async def ask(address: str) -> list[Ranking]:
        async with Headrace(address) as client:
            return [
                await client.rerank(QUERY, DOCUMENTS, top_n=3, model="ranker"),
                await client.rerank("Where is Ulm?", DOCUMENTS, model="asked", instruct="Find towns"),
                await client.rerank("Where is Ulm?", DOCUMENTS, model="asked"),
            ]

    over_http, over_grpc = (asyncio.run(ask(address)) for address in (platform.http, f"grpc://{platform.grpc}"))
    for one, other in zip(over_http, over_grpc, strict=True):
        assert (one.documents, one.prompt_tokens) == (other.documents, other.prompt_tokens)
    assert [len(ranking.documents) for ranking in over_grpc] == [3, 4, 4]
    assert over_grpc[1].documents != over_grpc[2].documents


def test_grpc_gives_raw_scores_and_refuses_what_http_does(
    platform: RunningPlatform, logits: tuple[Path, list[float]]
) -> None:
    given: dict[str, Any] = {"model": "ranker", "query": QUERY, "documents": DOCUMENTS}
    with grpc.insecure_channel(platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        raw = stub.Rerank(inference_pb2.RerankRequest(**given, raw_scores=True), timeout=60).documents
        assert {found.index: found.score for found in raw} == pytest.approx(dict(enumerate(logits[1])), abs=1e-4)
        long, cut = given | {"documents": ["w5 " * 600]}, given | {"max_token_count": 9}
        assert len(stub.Rerank(inference_pb2.RerankRequest(**cut), timeout=60).documents) == len(DOCUMENTS)
        for wrong in (long, given | {"documents": []}, given | {"top_n": 0}, given | {"query": ""}):
            with pytest.raises(grpc.RpcError) as caught:
                stub.Rerank(inference_pb2.RerankRequest(**wrong), timeout=60)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("path", "texts"),
    [("/v1/rerank", {"query": QUERY, "documents": DOCUMENTS}), ("/v1/score", {"text_1": QUERY, "text_2": DOCUMENTS})],
)
def test_a_model_that_takes_no_instruction_refuses_it(
    platform: RunningPlatform, path: str, texts: dict[str, Any]
) -> None:
    error = post(platform, path, instruct="Find towns", **texts).json()["error"]
    assert error["param"] == "instruct"
    assert "reads two texts and no instruction" in error["message"]
    assert post(platform, path, instruct="", **texts).status_code == 200
    assert post(platform, path, instruction="Find towns", **texts).json()["error"]["param"] == "instruction"


def test_pairs_are_scored_and_cut(platform: RunningPlatform, logits: tuple[Path, list[float]]) -> None:
    answer = post(platform, "/v1/score", text_1=QUERY, text_2=DOCUMENTS).json()
    found = [entry["score"] for entry in answer["data"]]
    assert found == pytest.approx([probability(logit) for logit in logits[1]], abs=1e-4)
    long = post(platform, "/v1/score", text_1=QUERY, text_2="w5 " * 600)
    assert (long.status_code, long.json()["error"]["param"]) == (400, "text_2")
    cut = post(platform, "/v1/score", text_1=QUERY, text_2=DOCUMENTS[2], truncate_prompt_tokens=9)
    assert (
        cut.json()["data"][0]["score"]
        == post(platform, "/v1/score", text_1=QUERY, text_2="w10 w11 w12").json()["data"][0]["score"]
    )


@pytest.mark.parametrize(
    ("path", "fields"), [("/v1/embeddings", {"input": "w5"}), ("/v1/completions", {"prompt": "w5"})]
)
def test_it_makes_nothing_else(platform: RunningPlatform, path: str, fields: dict[str, Any]) -> None:
    response = post(platform, path, **fields)
    assert response.status_code == 400
    assert "scores pairs of texts and makes no" in response.json()["error"]["message"]
    assert httpx2.get(f"{platform.http}/v1/models/ranker", timeout=60).json()["scores_pairs"] is True
