"""API keys on a whole platform: needed over HTTP and gRPC, made, rotated and revoked by commands, and accounted for."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from tests.e2e.command_line import Done, headrace_here
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.v1 import inference_pb2, inference_pb2_grpc

pytestmark = pytest.mark.slow
BODY = {"model": "headrace-demo", "prompt": [5, 6, 7], "max_tokens": 2, "ignore_eos": True}


def headrace(*arguments: str, key: str = "") -> Done:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_API_KEY", key)
        return headrace_here(*arguments)


def keys(folder: Path, *arguments: str) -> dict[str, Any]:
    done = headrace("keys", *arguments, "--json", "--state-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def key(folder: Path) -> str:
    return str(keys(folder, "create", "laptop", "--tenant", "acme", "--highest-class", "batch")["key"])


@pytest.fixture(scope="module")
def guarded(folder: Path, key: str) -> Iterator[RunningPlatform]:
    """A platform on every address of the machine: that asks for keys, which its state folder has."""
    with running_platform(folder, ["--engine", "sim", "--host", "0.0.0.0"]) as platform:
        yield platform


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def ask(platform: RunningPlatform, key: str, **headers: str) -> httpx2.Response:
    return httpx2.post(f"{platform.http}/v1/completions", json=BODY, headers=bearer(key) | headers, timeout=20)


def test_the_ready_line_says_that_keys_are_needed_and_where_others_come_in(guarded: RunningPlatform) -> None:
    assert guarded.ready["keys"] == 1
    assert guarded.http.startswith("http://127.0.0.1:")
    assert guarded.ready["lan"].rpartition(":")[2] == guarded.http.rpartition(":")[2]
    assert httpx2.get(f"{guarded.ready['lan']}/health", timeout=20).status_code == 200
    assert httpx2.get(f"{guarded.http}/ready", timeout=20).json()["keys"] == "1 known"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer other"}, {"x-api-key": "sk-abcdefgh-x"}])
def test_http_asks_for_a_key_before_it_reads_anything(guarded: RunningPlatform, headers: dict[str, str]) -> None:
    for path in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize", "/detokenize"):
        refused = httpx2.post(f"{guarded.http}{path}", content=b"{not read", headers=headers, timeout=20)
        assert refused.status_code == 401, path
        assert refused.json()["error"]["code"] == "invalid_api_key"
        assert refused.headers["www-authenticate"] == "Bearer"
    for path in ("/v1/models", "/V1/models", "//v1/models", "/health/%2e%2e/v1/models", "/v1/models/"):
        assert httpx2.get(f"{guarded.http}{path}", headers=headers, timeout=20).status_code == 401, path
    for path in ("/", "/health", "/ready", "/metrics"):
        assert httpx2.get(f"{guarded.http}{path}", headers=headers, timeout=20).status_code == 200


def test_a_key_is_enough(guarded: RunningPlatform, key: str) -> None:
    for urgency in ({}, {"x-headrace-class": "realtime"}):
        answer = ask(guarded, key, **urgency)
        assert answer.status_code == 200, answer.text
        assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
    for headers in (bearer(key), {"x-api-key": key}):
        assert httpx2.get(f"{guarded.http}/v1/models", headers=headers, timeout=20).status_code == 200


def test_grpc_asks_for_a_key(guarded: RunningPlatform, key: str) -> None:
    with grpc.insecure_channel(guarded.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        request = inference_pb2.ListModelsRequest()
        with pytest.raises(grpc.RpcError) as refusal:
            stub.ListModels(request, timeout=20)
        assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED
        models = stub.ListModels(request, timeout=20, metadata=tuple(bearer(key).items())).models
        assert [model.model for model in models] == ["headrace-demo"]
        generate = inference_pb2.GenerateRequest(model="headrace-demo", text="x")
        with pytest.raises(grpc.RpcError) as refusal:
            stub.Generate(generate, timeout=20)
        assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_keys_come_and_go_within_a_second_and_disturb_no_other(guarded: RunningPlatform, key: str) -> None:
    with asking(guarded, key) as statuses:
        made = keys(guarded.state_dir, "create", "guest", "--requests-per-day", "3")
        wait_for(guarded, made["key"], 200)
        newer = keys(guarded.state_dir, "rotate", made["id"], "--overlap", "1h")
        wait_for(guarded, newer["key"], 200)
        assert ask(guarded, made["key"]).status_code == 200
        refused = ask(guarded, newer["key"])
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        keys(guarded.state_dir, "revoke", made["id"])
        wait_for(guarded, newer["key"], 401)
    assert set(statuses) == {200}


@contextmanager
def asking(platform: RunningPlatform, key: str) -> Iterator[list[int]]:
    """Asks again and again with a key in the block, and yields the statuses of the answers."""
    statuses: list[int] = []
    ended = threading.Event()

    def keep_asking() -> None:
        while not ended.is_set():
            statuses.append(ask(platform, key).status_code)

    thread = threading.Thread(target=keep_asking)
    thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        thread.join(60)


def wait_for(platform: RunningPlatform, key: str, status: int) -> None:
    """Waits until the gateway answers the key with a status: its commands' last change is known by then."""
    deadline = time.monotonic() + 2
    while (given := ask(platform, key).status_code) != status:
        assert time.monotonic() < deadline, given


def test_usage_is_summed_by_the_command_and_for_the_own_tenant(guarded: RunningPlatform, key: str) -> None:
    counted = ask(guarded, key).json()["usage"]
    admin = keys(guarded.state_dir, "create", "boss", "--scope", "admin")
    other = keys(guarded.state_dir, "create", "other")
    # Whoever knows the last key knows the ones before it.
    wait_for(guarded, other["key"], 200)
    shown = headrace("usage", "--by", "tenant", "--json", "--state-dir", str(guarded.state_dir))
    sums = {entry["tenant"]: entry for entry in json.loads(shown.stdout)["usage"]}
    assert sums["acme"]["output_tokens"] % counted["completion_tokens"] == 0
    assert sums["acme"]["requests"] == sums["acme"]["finished"] >= 1
    url = f"{guarded.http}/headrace/usage?by=tenant"
    own = httpx2.get(url, headers=bearer(other["key"]), timeout=20).json()["data"]
    assert [entry["tenant"] for entry in own] == ["other"]
    every = httpx2.get(url, headers=bearer(admin["key"]), timeout=20).json()["data"]
    assert {"acme", "other"} <= {entry["tenant"] for entry in every}
    assert ask(guarded, admin["key"]).status_code == 403
    table = headrace("usage", "--csv", "--state-dir", str(guarded.state_dir)).stdout.splitlines()
    assert table[0] == "key,requests,finished,prompt_tokens,cached_tokens,output_tokens,cost,cost_per_million_tokens"


def test_client_commands_send_the_key(guarded: RunningPlatform, key: str) -> None:
    place = ["--state-dir", str(guarded.state_dir)]
    chat = headrace("chat", "--prompt", "hi", "--max-tokens", "2", "--json", *place, key=key)
    assert chat.returncode == 0, chat.stderr
    bench = headrace("bench", "--requests", "2", "--json", "--key", key, *place)
    assert json.loads(bench.stdout)["failed"] == 0
    refused = headrace("chat", "--prompt", "hi", *place)
    assert refused.returncode == 1
    assert "HEADRACE_API_KEY" in refused.stderr


def test_nobody_is_let_in_from_other_machines_unless_somebody_said_so(tmp_path: Path) -> None:
    up = ["up", "--host", "0.0.0.0", "--http-port", "0", "--grpc-port", "0", "--state-dir", str(tmp_path)]
    refused = headrace(*up)
    assert refused.returncode == 1
    assert "headrace keys create" in refused.stderr
    assert "--without-keys" in refused.stderr
    gone = keys(tmp_path, "create", "guest")
    keys(tmp_path, "revoke", gone["id"])
    assert headrace(*up).returncode == 1
    elsewhere = [*up[:2], "192.0.2.7", *up[3:], "--without-keys"]
    assert "not an address of this machine" in headrace(*elsewhere).stderr


def test_the_first_key_is_needed_at_once(tmp_path: Path) -> None:
    with running_platform(tmp_path, ["--engine", "sim"]) as platform:

        def ask_without() -> int:
            return httpx2.post(f"{platform.http}/v1/completions", json=BODY, timeout=20).status_code

        assert ask_without() == 200
        assert httpx2.get(f"{platform.http}/headrace/keys", timeout=20).status_code == 404
        first = str(keys(tmp_path, "create", "laptop")["key"])
        deadline = time.monotonic() + 10
        while ask_without() != 401:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert ask(platform, first).status_code == 200
