"""Real embeddings from a real platform: right, in every form of the API, and the same in any batch."""

import base64
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
import torch
from openai import BadRequestError, OpenAI
from tests.harness.running_platform import RunningPlatform
from transformers import AutoModel, AutoTokenizer

from headrace.v1 import inference_pb2, inference_pb2_grpc

PARAPHRASES = [
    ("How do I reset my password?", "I forgot my password, how can I get a new one?"),
    ("The cat sits outside.", "Outside, a cat is sitting."),
    ("Bread is baked in an oven.", "One uses an oven to bake bread."),
]
TEXTS = [text for pair in PARAPHRASES for text in pair]
MIXED = [f"Number {index}: " + "the water turns the wheel " * (index % 13) for index in range(64)]
"""Texts of many lengths."""
ENDLESS = [[101, *([1000 + index % 20_000] * 254), 102] for index in range(1024)]
"""Inputs that take minutes of work."""


def embed(platform: RunningPlatform, given: Any, cache: str = "off", **fields: Any) -> list[list[float]]:
    body = post(platform, input=given, cache=cache, **fields).json()
    assert "data" in body, body
    assert [entry["index"] for entry in body["data"]] == list(range(len(body["data"])))
    return [entry["embedding"] for entry in body["data"]]


def post(platform: RunningPlatform, cache: str = "off", **fields: Any) -> httpx2.Response:
    content = {"model": "minilm"} | fields
    headers = {"x-headrace-cache": cache}
    return httpx2.post(f"{platform.http}/v1/embeddings", json=content, headers=headers, timeout=60)


def refusal(platform: RunningPlatform, path: str = "/v1/embeddings", **fields: Any) -> dict[str, Any]:
    response = httpx2.post(f"{platform.http}{path}", json={"model": "minilm"} | fields, timeout=60)
    assert response.status_code == 400, response.text
    return dict(response.json()["error"])


@pytest.fixture(scope="module")
def expected(minilm: Path) -> torch.Tensor:
    """Embeddings of TEXTS by transformers, pooled and normalized as the checkpoint says."""
    tokenizer, model = AutoTokenizer.from_pretrained(minilm), AutoModel.from_pretrained(minilm).eval()
    vectors = []
    with torch.inference_mode():
        for text in TEXTS:
            hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            vectors.append(torch.nn.functional.normalize(hidden.mean(dim=0), dim=0))
    return torch.stack(vectors)


def test_vectors_equal_transformers(embedding_platform: RunningPlatform, expected: torch.Tensor) -> None:
    found = torch.tensor(embed(embedding_platform, TEXTS))
    assert found.shape == expected.shape == (len(TEXTS), 384)
    assert float((found - expected).abs().max()) <= 1e-5


def test_paraphrases_are_closer_than_anything_else(embedding_platform: RunningPlatform) -> None:
    vectors = torch.tensor(embed(embedding_platform, TEXTS))
    closeness = vectors @ vectors.T
    closeness.fill_diagonal_(-1.0)
    assert closeness.argmax(dim=1).tolist() == [1, 0, 3, 2, 5, 4]


def test_the_openai_sdk(embedding_platform: RunningPlatform) -> None:
    """The OpenAI SDK asks for base64 by itself, and decodes it."""
    client = OpenAI(base_url=f"{embedding_platform.http}/v1", api_key="unused", max_retries=0)
    answer = client.embeddings.create(model="minilm", input=TEXTS, user="somebody")
    assert [entry.embedding for entry in answer.data] == embed(embedding_platform, TEXTS)
    assert answer.model == "minilm"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0
    with pytest.raises(BadRequestError, match="makes embeddings and no text"):
        client.chat.completions.create(model="minilm", messages=[{"role": "user", "content": "Hello"}])
    assert "minilm" in {model.id for model in client.models.list()}


def test_base64_is_the_same_bit_by_bit(embedding_platform: RunningPlatform) -> None:
    numbers = embed(embedding_platform, TEXTS)
    texts: list[Any] = embed(embedding_platform, TEXTS, encoding_format="base64")
    assert [list(struct.unpack("<384f", base64.b64decode(text))) for text in texts] == numbers


def test_all_forms_of_an_input_are_one(embedding_platform: RunningPlatform) -> None:
    text = TEXTS[0]
    tokens = httpx2.post(f"{embedding_platform.http}/tokenize", json={"model": "minilm", "prompt": text}).json()[
        "tokens"
    ]
    assert (tokens[0], tokens[-1]) == (101, 102)
    (vector,) = embed(embedding_platform, text)
    assert embed(embedding_platform, [text]) == [vector]
    assert embed(embedding_platform, tokens) == [vector]
    assert embed(embedding_platform, [tokens, tokens]) == [vector, vector]
    usage = post(embedding_platform, input=[tokens, tokens]).json()["usage"]
    assert usage == {"prompt_tokens": 2 * len(tokens), "total_tokens": 2 * len(tokens)}


def test_64_at_once_equal_each_alone(embedding_platform: RunningPlatform) -> None:
    alone = [embed(embedding_platform, text)[0] for text in MIXED]
    assert embed(embedding_platform, MIXED) == alone
    with ThreadPoolExecutor(64) as threads:
        assert list(threads.map(lambda text: embed(embedding_platform, text)[0], MIXED)) == alone


def test_fewer_dimensions_are_the_first_ones_at_unit_length(embedding_platform: RunningPlatform) -> None:
    (whole,) = embed(embedding_platform, TEXTS[0])
    (short,) = embed(embedding_platform, TEXTS[0], dimensions=64)
    first = torch.nn.functional.normalize(torch.tensor(whole[:64]), dim=0)
    assert torch.allclose(torch.tensor(short), first, atol=1e-7)
    assert torch.tensor(short).norm() == pytest.approx(1, abs=1e-6)
    assert embed(embedding_platform, TEXTS[0], dimensions=384) == [whole]
    assert refusal(embedding_platform, input="x", dimensions=385)["param"] == "dimensions"


def test_a_long_input_is_refused_or_cut_but_keeps_its_special_tokens(embedding_platform: RunningPlatform) -> None:
    long = "water " * 400
    error = refusal(embedding_platform, input=["short", long])
    assert error["param"] == "input"
    assert "402 tokens > 256 maximum" in error["message"]
    assert "input 1" in error["message"]
    water = 2300
    expected = embed(embedding_platform, [[101] + [water] * 254 + [102], [101, water, water, 102]])
    assert embed(embedding_platform, long, truncate_prompt_tokens=-1) == expected[:1]
    assert embed(embedding_platform, long, truncate_prompt_tokens=4) == expected[1:]
    assert embed(embedding_platform, [[101, water, water, 102, 7]], truncate_prompt_tokens=4) == expected[1:]
    assert refusal(embedding_platform, input="x", truncate_prompt_tokens=257)["param"] == "truncate_prompt_tokens"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "input is required"),
        ({"input": []}, "the input is empty"),
        ({"input": ["fine", ""]}, "the input is empty"),
        ({"input": [[]]}, "the input is empty"),
        ({"input": [[1], ["two"]]}, "input must be a string, a list of strings"),
        ({"input": [[1], [30522]]}, "token id 30522 is not in the vocabulary"),
        ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
        ({"input": ["x"] * 2049}, "at most 2048 are allowed"),
        ({"input": "x", "model": "headrace-demo"}, "makes text and no embeddings; use minilm"),
    ],
)
def test_what_makes_no_sense_is_refused(
    embedding_platform: RunningPlatform, fields: dict[str, Any], message: str
) -> None:
    assert message in refusal(embedding_platform, **fields)["message"]


def test_a_model_for_embeddings_makes_no_text(embedding_platform: RunningPlatform) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    for path, fields in (("/v1/chat/completions", {"messages": messages}), ("/v1/completions", {"prompt": "Hello"})):
        error = refusal(embedding_platform, path, **fields)
        assert error["message"] == "model 'minilm' makes embeddings and no text; use /v1/embeddings"
        assert error["param"] == "model"


def test_the_cache_answers_without_the_worker_and_says_the_same(embedding_platform: RunningPlatform) -> None:
    """Steps are counted over the worker's whole life, so they show whether it had anything to do."""
    texts = [f"Remembered {index}" for index in range(3)]
    fresh = embed(embedding_platform, texts, cache="off")
    assert embed(embedding_platform, texts, cache="on") == fresh
    hits, misses = (f"headrace_response_cache_{name}_total" for name in ("hits", "misses"))
    before = embedding_platform.metrics()
    assert embed(embedding_platform, texts, cache="on") == fresh
    after = embedding_platform.metrics()
    assert after[hits] == before.get(hits, 0) + len(texts)
    assert after[misses] == before[misses]


def test_grpc(embedding_platform: RunningPlatform) -> None:
    with grpc.insecure_channel(embedding_platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        inputs = [inference_pb2.EmbeddingInput(text=text) for text in TEXTS]
        answer = stub.Embed(inference_pb2.EmbedRequest(model="minilm", inputs=inputs), timeout=60)
        assert [list(found.values) for found in answer.embeddings] == embed(embedding_platform, TEXTS)
        assert answer.usage.prompt_token_count > len(TEXTS)
        short = inference_pb2.EmbedRequest(model="minilm", inputs=inputs[:1], dimension_count=8)
        assert [list(stub.Embed(short, timeout=60).embeddings[0].values)] == embed(
            embedding_platform, TEXTS[0], dimensions=8
        )
        for wrong in (
            inference_pb2.EmbedRequest(model="minilm"),
            inference_pb2.EmbedRequest(model="minilm", inputs=[inference_pb2.EmbeddingInput()]),
            inference_pb2.EmbedRequest(model="headrace-demo", inputs=inputs),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                stub.Embed(wrong, timeout=60)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_deadline_ends_all_inputs_of_a_request(embedding_platform: RunningPlatform) -> None:
    headers = {"x-headrace-timeout-ms": "200", "x-headrace-cache": "off"}
    body = {"model": "minilm", "input": ENDLESS}
    response = httpx2.post(f"{embedding_platform.http}/v1/embeddings", json=body, headers=headers, timeout=60)
    assert response.status_code in {408, 504}
    assert response.json()["error"]["code"] in {"queue_timeout", "deadline_exceeded"}
    embedding_platform.wait_until_idle()


def test_a_client_that_leaves_takes_its_inputs_with_it(embedding_platform: RunningPlatform) -> None:
    """Computing them all would take longer than `wait_until_idle` waits."""
    with pytest.raises(httpx2.ReadTimeout):
        httpx2.post(
            f"{embedding_platform.http}/v1/embeddings",
            json={"model": "minilm", "input": ENDLESS},
            headers={"x-headrace-cache": "off"},
            timeout=httpx2.Timeout(30, read=0.5),
        )
    embedding_platform.wait_until_idle()


def test_nothing_is_left_behind(embedding_platform: RunningPlatform) -> None:
    embed(embedding_platform, MIXED)
    embedding_platform.wait_until_idle()


def test_documents_are_ranked_by_their_meaning(embedding_platform: RunningPlatform) -> None:
    documents = ["Bread is baked in an oven.", "I forgot my password.", "Bread rises with yeast."]
    body = {"model": "minilm", "query": "How do I reset my password?", "documents": documents, "top_n": 2}
    ranked = httpx2.post(f"{embedding_platform.http}/v1/rerank", json=body, timeout=60).json()
    assert ranked["results"][0]["index"] == 1
    assert len(ranked["results"]) == 2
    assert ranked["results"][0]["document"] == {"text": documents[1]}
    score_body = {"model": "minilm", "text_1": body["query"], "text_2": documents}
    scored = httpx2.post(f"{embedding_platform.http}/v1/score", json=score_body, timeout=60).json()
    assert scored["data"][1]["score"] == pytest.approx(ranked["results"][0]["relevance_score"])
    assert max(scored["data"], key=lambda entry: entry["score"])["index"] == 1
    uneven = httpx2.post(f"{embedding_platform.http}/v1/score", json=score_body | {"text_1": ["a", "b"]}, timeout=60)
    assert uneven.status_code == 400
    for path, texts in (("/v1/rerank", body), ("/v1/score", score_body)):
        told = httpx2.post(f"{embedding_platform.http}{path}", json=texts | {"instruct": "Find it"}, timeout=60)
        error = told.json()["error"]
        assert (told.status_code, error["param"]) == (400, "instruct")
        assert "takes no instruction: write it into the query" in error["message"]
