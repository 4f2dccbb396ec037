"""The REST bridge on the bundled model, through the OpenAI SDK and by hand."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest
from tests.harness.running_platform import RunningPlatform

MODEL = "headrace-demo"
MESSAGES: list[Any] = [{"role": "user", "content": "What is continuous batching?"}]


@pytest.fixture
def sdk(demo_platform: RunningPlatform) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{demo_platform.http}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def http(demo_platform: RunningPlatform) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=demo_platform.http, timeout=30) as client:
        yield client


def complete(http: httpx2.Client, **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": "Continuous batching is", "max_tokens": 12, "temperature": 0} | fields
    response = http.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


def events(http: httpx2.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    with http.stream("POST", path, json={"model": MODEL, "stream": True} | body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        raw = b"".join(response.iter_bytes())
    assert b"\r" not in raw
    assert raw.endswith(b"data: [DONE]\n\n")
    return [
        json.loads(event.partition("\n")[0][6:]) for event in raw.decode().split("\n\n") if event.startswith("data: {")
    ]


def test_chat_through_the_sdk(sdk: openai.OpenAI) -> None:
    completion = sdk.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, max_tokens=64)
    assert "batch" in (completion.choices[0].message.content or "").lower()
    assert completion.choices[0].finish_reason in {"stop", "length"}
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens


def test_a_stream_adds_up_to_the_whole(sdk: openai.OpenAI) -> None:
    whole = sdk.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, max_tokens=64)
    stream = sdk.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        temperature=0,
        max_tokens=64,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == whole.choices[0].finish_reason
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage or chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_the_sdk_stream_helper_accepts_the_stream(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(model=MODEL, messages=MESSAGES, temperature=0) as stream:
        completion = stream.get_final_completion()
    assert completion.choices[0].message.content


def test_usage_only_where_asked_for(http: httpx2.Client) -> None:
    without = events(http, "/v1/completions", {"prompt": "a", "max_tokens": 2})
    assert all(event["choices"] for event in without)
    assert all("usage" not in event for event in without)
    asked = {"prompt": "a", "max_tokens": 2, "stream_options": {"include_usage": True}}
    with_usage = events(http, "/v1/completions", asked)
    assert [event["usage"] for event in with_usage[:-1]] == [None] * (len(with_usage) - 1)
    assert with_usage[-1]["usage"]["completion_tokens"] == 2


def test_prompt_forms_agree(http: httpx2.Client) -> None:
    tokens = http.post("/tokenize", json={"model": MODEL, "prompt": "Continuous batching is"}).json()
    assert tokens["count"] == len(tokens["tokens"])
    assert tokens["max_model_length"] == 2048
    as_text = complete(http)["choices"][0]["text"]
    assert complete(http, prompt=tokens["tokens"])["choices"][0]["text"] == as_text
    several = complete(http, prompt=["Continuous batching is", "TTFT means"])["choices"]
    assert [choice["index"] for choice in several] == [0, 1]
    assert several[0]["text"] == as_text
    lists = complete(http, prompt=[tokens["tokens"], tokens["tokens"]])["choices"]
    assert [choice["text"] for choice in lists] == [as_text, as_text]


def test_tokenize_and_detokenize_are_inverse(http: httpx2.Client) -> None:
    text = "Ünïcödé 日本語 🙂 and\ttabs"
    tokens = http.post("/tokenize", json={"model": MODEL, "prompt": text, "add_special_tokens": False}).json()["tokens"]
    assert http.post("/detokenize", json={"model": MODEL, "tokens": tokens}).json() == {"prompt": text}
    chat = http.post("/tokenize", json={"model": MODEL, "messages": MESSAGES}).json()
    assert chat["count"] > 5


def test_a_seed_repeats_and_its_absence_does_not(http: httpx2.Client) -> None:
    def sample(**fields: Any) -> str:
        return str(complete(http, temperature=1.5, max_tokens=24, ignore_eos=True, **fields)["choices"][0]["text"])

    assert sample(seed=7) == sample(seed=7)
    assert sample(seed=7) != sample(seed=8)
    assert len({sample() for _ in range(4)}) > 1


def test_n_choices_differ_and_keep_their_index(http: httpx2.Client) -> None:
    choices = complete(http, n=3, temperature=1.5, seed=1, ignore_eos=True)["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({choice["text"] for choice in choices}) == 3
    streamed: dict[int, str] = {}
    fields = {"prompt": "Continuous batching is", "max_tokens": 12, "n": 3, "temperature": 1.5, "seed": 1}
    for event in events(http, "/v1/completions", fields | {"ignore_eos": True}):
        for choice in event["choices"]:
            streamed[choice["index"]] = streamed.get(choice["index"], "") + choice["text"]
    assert streamed == {choice["index"]: choice["text"] for choice in choices}


def test_stop_texts_are_trimmed_across_tokens(http: httpx2.Client) -> None:
    full = complete(http, max_tokens=40, ignore_eos=True)["choices"][0]["text"]
    stop = full[9:14]
    expected = full[: full.index(stop)]
    cut = complete(http, max_tokens=40, ignore_eos=True, stop=[stop, "never there"])["choices"][0]
    assert (cut["text"], cut["finish_reason"], cut["stop_reason"]) == (expected, "stop", stop)
    kept = complete(http, max_tokens=40, ignore_eos=True, stop=stop, include_stop_str_in_output=True)["choices"][0]
    assert kept["text"] == expected + stop
    body = {"prompt": "Continuous batching is", "max_tokens": 40, "temperature": 0, "stop": stop, "ignore_eos": True}
    streamed = events(http, "/v1/completions", body)
    assert "".join(event["choices"][0]["text"] for event in streamed) == expected


def test_stop_token_ids(http: httpx2.Client) -> None:
    tokens = complete(http, return_token_ids=True, ignore_eos=True)["choices"][0]["token_ids"]
    stop = tokens[4]
    cut = complete(http, return_token_ids=True, ignore_eos=True, stop_token_ids=[stop])["choices"][0]
    assert cut["token_ids"] == tokens[: tokens.index(stop) + 1]
    assert (cut["finish_reason"], cut["stop_reason"]) == ("stop", stop)


def test_logprobs_and_echo(http: httpx2.Client) -> None:
    choice = complete(http, logprobs=3, echo=True, max_tokens=4, return_token_ids=True)["choices"][0]
    logprobs = choice["logprobs"]
    count = len(choice["prompt_token_ids"]) + len(choice["token_ids"])
    assert [len(logprobs[key]) for key in logprobs] == [count] * 4
    assert logprobs["token_logprobs"][0] is None
    assert all(value <= 0 for value in logprobs["token_logprobs"][1:])
    assert choice["text"].startswith("Continuous batching is")
    greedy = logprobs["top_logprobs"][-1]
    assert max(greedy, key=greedy.get) == logprobs["tokens"][-1]


def test_scoring_a_prompt_generates_nothing(http: httpx2.Client) -> None:
    choice = complete(http, logprobs=1, echo=True, max_tokens=0, return_token_ids=True)["choices"][0]
    assert choice["token_ids"] == []
    assert len(choice["logprobs"]["token_logprobs"]) == len(choice["prompt_token_ids"])
    longer = complete(http, logprobs=1, echo=True, max_tokens=1)["choices"][0]
    scored = choice["logprobs"]["token_logprobs"][1:]
    assert longer["logprobs"]["token_logprobs"][1 : len(scored) + 1] == pytest.approx(scored, abs=1e-4)


def test_chat_logprobs(sdk: openai.OpenAI) -> None:
    completion = sdk.chat.completions.create(
        model=MODEL, messages=MESSAGES, temperature=0, max_tokens=5, logprobs=True, top_logprobs=2
    )
    content = completion.choices[0].logprobs.content
    assert content is not None
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in content)
    assert all(bytes(entry.bytes or []).decode("utf-8", "replace") == entry.token for entry in content)


def test_token_ids_of_chunks_add_up(http: httpx2.Client) -> None:
    whole = complete(http, return_token_ids=True)["choices"][0]
    body = {"prompt": "Continuous batching is", "max_tokens": 12, "temperature": 0, "return_token_ids": True}
    chunks = [event["choices"][0] for event in events(http, "/v1/completions", body)]
    assert [token for chunk in chunks for token in chunk["token_ids"]] == whole["token_ids"]
    assert chunks[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert all("prompt_token_ids" not in chunk for chunk in chunks[1:])


def test_penalties_and_bias_change_the_choice(http: httpx2.Client) -> None:
    plain = complete(http, max_tokens=60, ignore_eos=True, return_token_ids=True)["choices"][0]["token_ids"]
    first = plain[0]
    banned = complete(http, logit_bias={str(first): -100}, return_token_ids=True)["choices"][0]["token_ids"]
    assert first not in banned
    varied = complete(http, max_tokens=60, ignore_eos=True, frequency_penalty=2, return_token_ids=True)["choices"][0]
    assert len(set(varied["token_ids"])) >= len(set(plain))
    few = complete(http, min_tokens=12, return_token_ids=True)["choices"][0]["token_ids"]
    assert len(few) == 12


def test_models(sdk: openai.OpenAI, http: httpx2.Client) -> None:
    assert [model.id for model in sdk.models.list()] == [MODEL]
    assert sdk.models.retrieve(MODEL).id == MODEL
    response = http.get("/v1/models/org/none")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"


def test_request_id_is_taken_or_made(http: httpx2.Client) -> None:
    assert http.get("/health", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert len(http.get("/health").headers["x-request-id"]) >= 16
    assert http.get("/health", headers={"x-request-id": "has space"}).headers["x-request-id"] != "has space"


def test_ignored_fields_are_named(http: httpx2.Client) -> None:
    body = {"model": MODEL, "prompt": "a", "max_tokens": 1, "zork": 1, "grue": 2}
    response = http.post("/v1/completions", json=body)
    assert response.status_code == 200
    assert response.headers["x-headrace-ignored-fields"] == "grue, zork"


def test_response_cache_answers_the_second_time(http: httpx2.Client, demo_platform: RunningPlatform) -> None:
    body = {"model": MODEL, "prompt": f"cache {time.time()}", "max_tokens": 8, "temperature": 0}
    headers = {"x-headrace-cache": "on"}
    first = http.post("/v1/completions", json=body, headers=headers).json()
    generated = demo_platform.metrics()["headrace_output_tokens_total"]
    second = http.post("/v1/completions", json=body, headers=headers)
    assert second.headers["x-headrace-cache"] == "hit"
    assert second.json()["choices"] == first["choices"]
    delivered = first["usage"]["completion_tokens"]
    assert demo_platform.metrics()["headrace_output_tokens_total"] == generated + delivered


def test_metrics_of_the_contract(http: httpx2.Client) -> None:
    text = http.get("/metrics").text
    gauges = ("requests_running", "requests_waiting", "requests_open", "kv_blocks_used", "kv_blocks_total")
    for name in gauges:
        assert re.search(rf'headrace_{name}{{[^}}]*model="{MODEL}"', text)
    for name in ("memory_weights_bytes", "memory_kv_bytes", "memory_resident_bytes", "draft_tokens_total"):
        assert float(re.findall(rf'headrace_{name}{{model="{MODEL}",worker="worker-0"}} (.+)', text)[0]) >= 0
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds"):
        assert f'headrace_{name}_bucket{{le="+Inf",model="{MODEL}"}}' in text
    duration = "headrace_request_duration_seconds_bucket"
    assert f'{duration}{{le="+Inf",model="{MODEL}",outcome="finished"}}' in text
