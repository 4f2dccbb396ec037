"""Workers that vLLM computes for, on a whole platform: everything a client may ask for, and a worker that is killed."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import jsonschema
import openai
import pytest
from tests.harness.running_platform import RunningPlatform

MODEL = "headrace-demo"
QUESTION: list[Any] = [{"role": "user", "content": "What is continuous batching?"}]
LONG = "Continuous batching admits new requests at every step of the engine. " * 24


def complete(platform: RunningPlatform, **fields: Any) -> Any:
    body = {"model": MODEL, "prompt": "Continuous batching is", "temperature": 0, "max_tokens": 32} | fields
    answer = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def sdk(two_workers: RunningPlatform) -> Any:
    with openai.OpenAI(base_url=f"{two_workers.http}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def test_a_stream_says_what_a_whole_answer_says(sdk: openai.OpenAI) -> None:
    asked: Any = {"model": MODEL, "messages": QUESTION, "temperature": 0, "max_tokens": 40}
    whole = sdk.chat.completions.create(**asked).choices[0]
    streamed = "".join(
        chunk.choices[0].delta.content or "" for chunk in sdk.chat.completions.create(**asked, stream=True)
    )
    assert whole.message.content
    assert streamed == whole.message.content


def test_log_probabilities_are_of_the_tokens_chosen(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=8, logprobs=True, top_logprobs=3
    )
    assert answer.choices[0].logprobs is not None
    for entry in answer.choices[0].logprobs.content or []:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == max(other.logprob for other in entry.top_logprobs)


def test_a_seed_repeats_and_stops_end(two_workers: RunningPlatform) -> None:
    first, second = (complete(two_workers, temperature=1, seed=5)["choices"][0]["text"] for _ in range(2))
    assert first == second
    stop = first.strip().split()[1]
    choice = complete(two_workers, temperature=1, seed=5, stop=[stop])["choices"][0]
    assert (stop in choice["text"], choice["finish_reason"]) == (False, "stop")


@pytest.mark.parametrize("temperature", [0, 1])
def test_structured_output_validates(sdk: openai.OpenAI, temperature: float) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form: Any = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    answer = sdk.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=temperature, max_tokens=300, response_format=form
    )
    jsonschema.validate(json.loads(answer.choices[0].message.content or ""), schema)


def test_a_forced_tool_is_called(sdk: openai.OpenAI) -> None:
    parameters = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}
    tool: Any = {"type": "function", "function": {"name": "weather", "parameters": parameters, "strict": False}}
    answer: Any = sdk.chat.completions.create(
        model=MODEL,
        messages=QUESTION,
        temperature=0,
        max_tokens=200,
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in ("Oslo", "Rome")


def test_a_repeated_prompt_goes_where_its_blocks_are(two_workers: RunningPlatform) -> None:
    complete(two_workers, prompt=LONG, max_tokens=2)
    counts = [
        complete(two_workers, prompt=LONG, max_tokens=2)["usage"]["prompt_tokens_details"]["cached_tokens"]
        for _ in range(4)
    ]
    assert min(counts) >= 128


def test_64_streams_at_once_all_say_the_same(two_workers: RunningPlatform) -> None:
    expected = complete(two_workers)["choices"][0]["text"]
    with ThreadPoolExecutor(64) as pool:
        found = list(pool.map(lambda _: complete(two_workers)["choices"][0]["text"], range(64)))
    assert set(found) == {expected}


def test_who_leaves_frees_what_he_held(two_workers: RunningPlatform) -> None:
    body = {"model": MODEL, "prompt": "Once", "max_tokens": 400, "ignore_eos": True, "stream": True}
    with httpx2.stream("POST", f"{two_workers.http}/v1/completions", json=body, timeout=60) as answer:
        next(answer.iter_lines())
    two_workers.wait_until_idle(30)


@pytest.mark.parametrize("fields", [{}, {"guided_regex": "[a-z ]{200,400}"}, {"frequency_penalty": 0.5}])
def test_a_killed_worker_changes_no_greedy_text(two_workers: RunningPlatform, fields: dict[str, Any]) -> None:
    asked = {"max_tokens": 150, "ignore_eos": True, **fields}
    expected = complete(two_workers, **asked)["choices"][0]["text"]
    parts: list[str] = []
    moving = threading.Event()

    def read() -> None:
        body = {"model": MODEL, "prompt": "Continuous batching is", "temperature": 0, "stream": True} | asked
        with httpx2.stream("POST", f"{two_workers.http}/v1/completions", json=body, timeout=120) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    parts.append(json.loads(line[6:])["choices"][0]["text"])
                    if len(parts) > 20:
                        moving.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert moving.wait(60)
    worker = two_workers.busy_worker()
    restarts = two_workers.service(worker)["restarts"]
    two_workers.kill(worker)
    reader.join(120)
    assert not reader.is_alive()
    assert "".join(parts) == expected
    two_workers.wait_until_restarted(worker, restarts + 1, 200)


def test_a_prompt_beyond_the_context_is_refused(two_workers: RunningPlatform) -> None:
    body = {"model": MODEL, "prompt": [1] * 5000, "max_tokens": 2}
    answer = httpx2.post(f"{two_workers.http}/v1/completions", json=body, timeout=60)
    assert answer.status_code == 400
    assert "context" in answer.json()["error"]["message"]
