"""Bad input gets the contract's error, says what and why, and leaves the service as healthy as before."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.harness.running_platform import RunningPlatform

MODEL = "headrace-demo"
COMPLETION: dict[str, Any] = {"model": MODEL, "prompt": "a", "max_tokens": 1}
CHAT: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


@pytest.fixture
def http(demo_platform: RunningPlatform) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=demo_platform.http, timeout=30) as client:
        yield client


@pytest.fixture(autouse=True)
def healthy_afterwards(demo_platform: RunningPlatform) -> Iterator[None]:
    yield
    response = httpx2.post(f"{demo_platform.http}/v1/completions", json=COMPLETION, timeout=30)
    assert response.status_code == 200, response.text
    demo_platform.wait_until_idle()


def check_error(response: httpx2.Response, status: int, param: str | None = None, text: str = "") -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["code"], str)
    assert error["param"] == param
    assert text in error["message"]
    assert "Traceback" not in error["message"]
    assert len(error["message"]) < 1000
    assert "/" not in error["message"] or "/v1/" in error["message"] or "GET /" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param", "text"),
    [
        ({"prompt": 5}, "prompt", "prompt"),
        ({"prompt": ["a", [1]]}, "prompt", "prompt"),
        ({"prompt": ""}, "prompt", "empty"),
        ({"prompt": []}, "prompt", "empty"),
        ({"prompt": [[]]}, "prompt", "empty"),
        ({"prompt": [99999]}, "prompt", "99999"),
        ({"prompt": [-1]}, "prompt", ""),
        ({"prompt": "word " * 3000}, "prompt", "2048"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": -5}, "max_tokens", "must be"),
        ({"max_tokens": "5"}, "max_tokens", "integer"),
        ({"max_tokens": 5000}, "max_tokens", "2048"),
        ({"temperature": -1}, "temperature", "must be"),
        ({"temperature": "hot"}, "temperature", "number"),
        ({"top_p": 0}, "top_p", "must be"),
        ({"n": 0}, "n", "must be"),
        ({"n": 100000}, "n", "at most"),
        ({"logprobs": 21}, "logprobs", "20"),
        ({"stop": [""]}, "stop", "stop"),
        ({"stop": ["a"] * 17}, "stop", "16"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "token ids"),
        ({"logit_bias": {"99999": 1}}, "logit_bias", "99999"),
        ({"stop_token_ids": [99999]}, "stop_token_ids", "99999"),
        ({"min_tokens": 9}, "min_tokens", "max_tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "stream"),
        ({"model": 7}, "model", "string"),
        ({"suffix": "x"}, "suffix", "not supported"),
        ({"best_of": 3}, "best_of", "not supported"),
        ({"prompt": "\ud800"}, None, "surrogate"),
        ({"seed": 2**70}, "seed", ""),
        ({"top_k": 2**31}, "top_k", "2147483647"),
        ({"min_tokens": 2**31}, "min_tokens", "2147483647"),
        ({"max_tokens": 2**31}, "max_tokens", "2147483647"),
        ({"max_tokens": 2**40}, "max_tokens", "2147483647"),
        ({"prompt": [2**31]}, "prompt", "token id 2147483648"),
    ],
)
def test_bad_completion_fields(http: httpx2.Client, fields: dict[str, Any], param: str | None, text: str) -> None:
    check_error(http.post("/v1/completions", content=json.dumps(COMPLETION | fields)), 400, param, text)


@pytest.mark.parametrize(
    ("fields", "param", "text"),
    [
        ({"messages": []}, "messages", ""),
        ({"messages": "hi"}, "messages", ""),
        ({"messages": [{"content": "hi"}]}, "messages", "role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages", ""),
        ({"messages": [{"role": "narrator", "content": "hi"}]}, "messages", "role"),
        ({"messages": [{"role": "x" * 100_000, "content": "hi"}]}, "messages", "role"),
        ({"messages": [{"role": "user"}]}, "messages", "user must have content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages", "user must have content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages", "user must have content"),
        ({"response_format": {"type": "x" * 100_000}}, "response_format", "json_schema"),
        ({"top_k": 2**40}, "top_k", "2147483647"),
        ({"min_tokens": 2**40}, "min_tokens", "2147483647"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "must be"),
        ({"top_logprobs": 2}, "top_logprobs", "logprobs"),
        ({"tools": [{"type": "function"}]}, "tools", "function is required"),
        ({"response_format": {"type": "xml"}}, "response_format", "json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "required"),
        ({"guided_json": {"not": {}}}, "guided_json", '"not"'),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice", "one format"),
        ({"structured_outputs": {"choice": ["a"] * 1001}}, "structured_outputs", "1000"),
        ({"structured_outputs": {"regex": "a" * 70_000}}, "structured_outputs", "65536"),
    ],
)
def test_bad_chat_fields(http: httpx2.Client, fields: dict[str, Any], param: str, text: str) -> None:
    check_error(http.post("/v1/chat/completions", json=CHAT | fields), 400, param, text)


@pytest.mark.parametrize("neutral", [{"tools": []}, {"response_format": {"type": "text"}}, {"store": False}])
def test_neutral_values_of_unsupported_fields_are_fine(http: httpx2.Client, neutral: dict[str, Any]) -> None:
    response = http.post("/v1/chat/completions", json=CHAT | neutral)
    assert response.status_code == 200
    assert "x-headrace-ignored-fields" not in response.headers


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"text"', b"null", b'{"model": "\xff\xfe"}', b"[" * 100_000, b'{"temperature": NaN}'],
)
def test_malformed_bodies(http: httpx2.Client, content: bytes) -> None:
    check_error(http.post("/v1/completions", content=content), 400)


def test_missing_fields_are_named(http: httpx2.Client) -> None:
    check_error(http.post("/v1/completions", json={"model": MODEL}), 400, "prompt", "required")
    check_error(http.post("/v1/chat/completions", json={"model": MODEL}), 400, "messages", "required")


def test_without_a_name_the_only_model_answers(http: httpx2.Client) -> None:
    answer = http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1})
    assert (answer.status_code, answer.json()["model"]) == (200, MODEL)


def test_unknown_model_lists_the_known(http: httpx2.Client) -> None:
    check_error(http.post("/v1/completions", json=COMPLETION | {"model": "none"}), 404, "model", MODEL)
    check_error(http.post("/v1/completions", json=COMPLETION | {"model": "x" * 100_000}), 404, "model", MODEL)
    check_error(http.post("/tokenize", json={"model": "none", "prompt": "a"}), 404, "model", MODEL)


def test_unknown_paths_and_methods(http: httpx2.Client) -> None:
    check_error(http.get("/v1/nothing"), 404)
    check_error(http.get("/v1/completions"), 405)
    assert http.get("/v1/completions").headers["allow"] == "POST"


def test_a_body_of_50_megabytes_is_refused(http: httpx2.Client) -> None:
    check_error(http.post("/v1/completions", content=b"x" * 50_000_000), 413)


def test_a_large_body_without_a_length_is_refused(http: httpx2.Client) -> None:
    check_error(http.post("/v1/completions", content=(b"x" * 1_000_000 for _ in range(50))), 413)


def test_bad_detokenize(http: httpx2.Client) -> None:
    check_error(http.post("/detokenize", json={"model": MODEL, "tokens": [10**6]}), 400, "tokens", "vocabulary")
    check_error(http.post("/detokenize", json={"model": MODEL, "tokens": ["a"]}), 400, "tokens")
    check_error(http.post("/tokenize", json={"model": MODEL}), 400, "prompt")


def test_deadlines(http: httpx2.Client) -> None:
    for bad in ("0", "-1", "soon", "1.5"):
        response = http.post("/v1/completions", json=COMPLETION, headers={"x-headrace-timeout-ms": bad})
        check_error(response, 400, "x-headrace-timeout-ms")
    long = COMPLETION | {"max_tokens": 1500, "ignore_eos": True}
    response = http.post("/v1/completions", json=long, headers={"x-headrace-timeout-ms": "150"})
    assert response.status_code in {408, 504}
    check_error(response, response.status_code, None, "stage")


def test_a_deadline_in_mid_stream_is_an_error_event(http: httpx2.Client) -> None:
    long = COMPLETION | {"max_tokens": 1500, "ignore_eos": True, "stream": True}
    headers = {"x-headrace-timeout-ms": "400"}
    with http.stream("POST", "/v1/completions", json=long, headers=headers) as response:
        lines = [line for line in response.iter_lines() if line]
    assert response.status_code == 200
    assert '"code":"deadline_exceeded"' in lines[-1]
    assert "data: [DONE]" not in lines


def test_half_a_request_and_gone(demo_platform: RunningPlatform) -> None:
    host, port = demo_platform.http.removeprefix("http://").split(":")
    for text in (b"POST /v1/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{", b"GARBAGE\r\n\r\n", b"\x16\x03\x01"):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(text)
