"""A real platform serves the bundled model, and an adapter as a separate model beside it."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
import torch
from safetensors.torch import save_file
from tests.e2e.command_line import headrace
from tests.harness.pace import hold_back
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.demo_model import CHECKPOINT
from headrace.v1 import inference_pb2, inference_pb2_grpc

BASE, TUNED = "headrace-demo", "team/tuned"
MESSAGES = [{"role": "user", "content": "What is continuous batching?"}]
PROMPT = "Continuous batching is"
STREAM_TOKENS, STEP_SECONDS = 400, 0.008
"""Long enough that a busy machine gets to the kill while the stream still runs."""


def save_adapter(folder: Path, rank: int = 4) -> None:
    """A random adapter of the bundled model's feed-forward blocks and queries, in the files that PEFT would write."""
    config = json.loads((CHECKPOINT / "config.json").read_text())
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    modules = {"self_attn.q_proj": (hidden, hidden), "mlp.up_proj": (hidden, inner), "mlp.down_proj": (inner, hidden)}
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for module, (in_size, out_size) in modules.items():
            name = f"base_model.model.model.layers.{layer}.{module}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(rank, in_size, generator=generator) * in_size**-0.5
            tensors[f"{name}.lora_B.weight"] = torch.randn(out_size, rank, generator=generator) * 0.4
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    targets = [module.split(".")[1] for module in modules]
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "target_modules": targets, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """Two workers, each with the adapter."""
    folder = tmp_path_factory.mktemp("adapters")
    save_adapter(folder / "tuned")
    config = folder / "headrace.toml"
    config.write_text(hold_back(folder / "failpoints", ("worker-0", "worker-1"), STEP_SECONDS))
    arguments = ["--replicas", "2", "--config", str(config), "--lora", f"{TUNED}={folder / 'tuned'}"]
    with running_platform(folder / "state", arguments) as platform:
        yield platform


def chat(platform: RunningPlatform, model: str, **fields: Any) -> dict[str, Any]:
    body = {"model": model, "messages": MESSAGES, "temperature": 0, "max_tokens": 24, "return_token_ids": True} | fields
    response = httpx2.post(f"{platform.http}/v1/chat/completions", json=body, timeout=60)
    assert response.status_code == 200, response.text
    return dict(response.json())


def ids(answer: dict[str, Any]) -> list[int]:
    return list(answer["choices"][0]["token_ids"])


def test_an_adapter_is_a_model_with_a_parent(platform: RunningPlatform) -> None:
    assert platform.ready["models"] == [BASE, TUNED]
    listed = httpx2.get(f"{platform.http}/v1/models", timeout=10).json()["data"]
    assert [(entry["id"], entry.get("parent")) for entry in listed] == [(BASE, None), (TUNED, BASE)]
    shown = httpx2.get(f"{platform.http}/v1/models/{TUNED}", timeout=10).json()
    assert (shown["id"], shown["parent"]) == (TUNED, BASE)
    with grpc.insecure_channel(platform.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        models = stub.ListModels(inference_pb2.ListModelsRequest(), timeout=10).models
    assert {(model.model, model.parent) for model in models} == {(BASE, ""), (TUNED, BASE)}


def test_the_adapter_answers_for_itself_and_the_base_as_without_it(
    platform: RunningPlatform, demo_platform: RunningPlatform
) -> None:
    tuned, base = chat(platform, TUNED), chat(platform, BASE)
    assert (tuned["model"], base["model"]) == (TUNED, BASE)
    assert tuned["prompt_token_ids"] == base["prompt_token_ids"]
    assert ids(tuned) != ids(base) == ids(chat(demo_platform, BASE))


def test_both_at_once_get_what_they_get_alone(platform: RunningPlatform) -> None:
    expected = {name: ids(chat(platform, name)) for name in (BASE, TUNED)}
    found: list[tuple[str, list[int]]] = []
    threads = [
        threading.Thread(target=lambda name=name: found.append((name, ids(chat(platform, name)))))
        for name in (BASE, TUNED) * 6
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == len(threads)
    assert all(expected[name] == token_ids for name, token_ids in found)


def test_remembered_answers_are_not_mixed_up(platform: RunningPlatform) -> None:
    expected = {name: ids(chat(platform, name)) for name in (BASE, TUNED)}
    body = {"messages": MESSAGES, "temperature": 0, "max_tokens": 24, "return_token_ids": True}
    for _ in range(2):
        for name, token_ids in expected.items():
            headers = {"x-headrace-cache": "on"}
            url = f"{platform.http}/v1/chat/completions"
            answer = httpx2.post(url, json=body | {"model": name}, headers=headers, timeout=60).json()
            assert ids(answer) == token_ids


def test_text_is_tokenized_as_the_parents(platform: RunningPlatform) -> None:
    tokens = [
        httpx2.post(f"{platform.http}/tokenize", json={"model": name, "messages": MESSAGES}, timeout=10).json()
        for name in (BASE, TUNED)
    ]
    assert tokens[0] == tokens[1]
    body = {"model": TUNED, "tokens": tokens[0]["tokens"]}
    assert MESSAGES[0]["content"] in httpx2.post(f"{platform.http}/detokenize", json=body, timeout=10).json()["prompt"]


def test_metrics_tell_them_apart(platform: RunningPlatform) -> None:
    chat(platform, TUNED)
    text = httpx2.get(f"{platform.http}/metrics", timeout=10).text
    assert f'headrace_time_to_first_token_seconds_count{{model="{TUNED}"}}' in text
    assert f'headrace_workers{{model="{BASE}",worker="worker-1"}} 1.0' in text
    assert f'headrace_workers{{model="{TUNED}"' not in text


def stream(platform: RunningPlatform, model: str, kill_after: int | None = None) -> list[int]:
    """The tokens of a long completion, whose worker is killed on the way."""
    body = {"model": model, "prompt": PROMPT, "max_tokens": STREAM_TOKENS, "temperature": 0, "ignore_eos": True}
    body |= {"stream": True, "return_token_ids": True}
    found: list[int] = []
    worker = ""
    with httpx2.stream("POST", f"{platform.http}/v1/completions", json=body, timeout=60) as response:
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            assert "error" not in event, event
            found += event["choices"][0]["token_ids"]
            if kill_after is not None:
                worker = worker or platform.busy_worker()
                if len(found) >= kill_after:
                    platform.kill(worker)
                    kill_after = None
    return found


def test_a_stream_with_an_adapter_survives_its_worker(platform: RunningPlatform) -> None:
    undisturbed = stream(platform, TUNED)
    assert len(undisturbed) == STREAM_TOKENS
    assert undisturbed != stream(platform, BASE)
    platform.wait_until_idle()
    moved = platform.metrics()["headrace_resubmissions_total"]
    assert stream(platform, TUNED, kill_after=60) == undisturbed
    assert platform.metrics()["headrace_resubmissions_total"] == moved + 1
    for name in ("worker-0", "worker-1"):
        platform.wait_until_restarted(name, 0)
    platform.wait_until_idle()


def test_an_adapter_that_cannot_be_is_named_at_the_start(tmp_path: Path) -> None:
    ports = ("--http-port", "0", "--grpc-port", "0")
    arguments = ("--json", "--state-dir", str(tmp_path / "state"), *ports, "--lora", f"x={tmp_path}")
    ended = headrace("up", *arguments, timeout=60)
    assert ended.returncode != 0
    assert "adapter_config.json" in ended.stdout + ended.stderr
