"""No client stops another, or makes the gateway large, with any body that limits allow; and no file lies open."""

import contextlib
import gzip
import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx2
import psutil
import pytest
from google.protobuf.message import Message
from tests.e2e.other_client import OtherClient
from tests.e2e.worst_bodies import FEW_TEXTS, MODEL, WorstBody, repeated, worst_bodies
from tests.harness.pace import hold_back
from tests.harness.running_platform import RunningPlatform, running_platform
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from headrace.storage.private_files import OTHERS
from headrace.v1 import inference_pb2 as pb
from headrace.v1.tokenizer_pb2 import ChatMessage

pytestmark = pytest.mark.alone
MAX_WAIT = 0.25
STEP_SECONDS = 0.02
MAX_MEMORY = 300 * 2**20
TRIES = 4
LAST_EVENTS = ("error", "response.completed", "response.incomplete", "response.failed")


@pytest.fixture(scope="module")
def filtering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    folder = tmp_path_factory.mktemp("isolation")
    filters = folder / "filters.toml"
    filters.write_text('[default]\npersonal = ["card", "iban", "email", "phone", "secret"]\nwords = ["foo", "a b"]\n')
    config = folder / "headrace.toml"
    pace = hold_back(folder / "failpoints", ["worker-0"], STEP_SECONDS)
    config.write_text(f'[gateway]\nfilters_file = "{filters}"\n{pace}')
    with running_platform(folder / "state", ["--config", str(config)]) as platform:
        yield platform


class Walk:
    """Sends one body after another, and notes after which another client waits for too long."""

    def __init__(self, platform: RunningPlatform, other: OtherClient, usual: float) -> None:
        """`usual` is the longest wait of the other client on this machine as it is."""
        self._gateway = psutil.Process(platform.service("gateway")["pid"])
        self._other = other
        self._usual = usual
        self._late: dict[str, float] = {}
        self._large: dict[str, int] = {}

    def send(self, name: str, send: Callable[[], object]) -> None:
        """Sends a body. If the other client waited for too long, it is sent again: a body that stops others does so
        each time, unlike something else on the machine."""
        waits = []
        for _ in range(TRIES):
            send()
            waits.append(self._other.longest_wait())
            if waits[-1] <= MAX_WAIT + self._usual:
                break
        else:
            self._late[name] = min(waits)
        memory = self._gateway.memory_info().rss
        if memory > MAX_MEMORY:
            self._large[name] = memory

    def check(self) -> None:
        """Raises AssertionError with all that were noted."""
        assert self._late == {}
        assert self._large == {}


@pytest.fixture(scope="module")
def other(filtering: RunningPlatform) -> Iterator[OtherClient]:
    with OtherClient(filtering.http) as other:
        yield other


@pytest.fixture(scope="module")
def usual(other: OtherClient) -> float:
    """Longest wait while something else keeps a core busy."""
    waits = []
    for _ in range(4):
        end = time.monotonic() + 0.25
        while time.monotonic() < end:
            pass
        waits.append(other.longest_wait())
    return max(waits)


@pytest.fixture
def walk(filtering: RunningPlatform, other: OtherClient, usual: float) -> Walk:
    other.longest_wait()
    return Walk(filtering, other, usual)


def post(url: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> int:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", path, body, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        answer.read()
        return answer.status


def test_over_http(filtering: RunningPlatform, walk: Walk) -> None:
    statuses: dict[str, int] = {}

    def send(body: WorstBody) -> None:
        statuses[body.name] = post(filtering.http, body.path, body.content)

    for body in worst_bodies():
        walk.send(body.name, partial(send, body))
    assert {name: status for name, status in statuses.items() if not 200 <= status < 500} == {}
    walk.check()


def test_compressed(filtering: RunningPlatform, walk: Walk) -> None:
    contents = {
        "bomb": gzip.compress(b" " * 500_000_000, 9),
        "members": gzip.compress(b"") * 300_000,
        "digits": gzip.compress(b'{"input":"' + b"1234 5678 " * 90_000 + b'"}'),
    }
    for name, content in contents.items():
        walk.send(name, partial(post, filtering.http, "/v1/moderations", content, {"content-encoding": "gzip"}))
    walk.check()


def test_over_websockets(filtering: RunningPlatform, walk: Walk) -> None:
    address = f"ws{filtering.http.removeprefix('http')}/v1/responses"
    bodies = {
        **{name: json.dumps({"input": repeated(piece)}) for name, piece in FEW_TEXTS.items()},
        "objects": '{"x":[' + "{}," * 2_600_000 + "{}]}",
        "numbers": '{"x":[' + "1," * 3_900_000 + "1]}",
        "deep": "[" * 7_000_000,
        "nothing": "x" * 7_000_000,
    }
    messages = {
        name: body.replace("{", f'{{"type":"response.create","max_output_tokens":16,"model":"{MODEL}",', 1)
        for name, body in bodies.items()
    }

    def send(message: str) -> None:
        with contextlib.suppress(ConnectionClosed), connect(address, max_size=None, proxy=None) as socket:
            socket.send(message)
            while json.loads(socket.recv(timeout=60))["type"] not in LAST_EVENTS:
                pass

    def send_to_all(message: str) -> None:
        with contextlib.ExitStack() as sockets:
            opened = [sockets.enter_context(connect(address, max_size=None, proxy=None)) for _ in range(12)]
            for socket in opened:
                with contextlib.suppress(ConnectionClosed):
                    socket.send(message)

    for name, message in messages.items():
        walk.send(name, partial(send, message))
    walk.send("twelve at once", partial(send_to_all, messages["objects"]))
    walk.check()


def test_over_grpc(filtering: RunningPlatform, walk: Walk) -> None:
    message = ChatMessage(role="user", content="1234 " * 20)
    requests: dict[str, tuple[str, bytes]] = {
        "messages": ("Chat", _serialized(pb.ChatRequest(model=MODEL, messages=[message] * 16_000))),
        "empty messages": ("Chat", b"\x12\x00" * 4_000_000),
        "empty tools": ("Chat", b"\x22\x00" * 4_000_000),
        "ids": ("Generate", _serialized(pb.GenerateRequest(model=MODEL, token_ids=pb.TokenIds(values=[1] * 490_000)))),
        "too many ids": ("Generate", _serialized(pb.GenerateRequest(token_ids=pb.TokenIds(values=[1] * 8_000_000)))),
        "inputs": ("Embed", b"\x12\x00" * 4_000_000),
        "documents": ("Rerank", b"\x1a\x00" * 4_000_000),
        "no message": ("Chat", b"\xff" * 8_000_000),
    }
    for name, piece in FEW_TEXTS.items():
        said = ChatMessage(role="user", content=repeated(piece))
        requests[f"{name} chat"] = "Chat", _serialized(pb.ChatRequest(model=MODEL, messages=[said]))
        requests[f"{name} text"] = "Generate", _serialized(pb.GenerateRequest(model=MODEL, text=repeated(piece)))
    with grpc.insecure_channel(filtering.grpc) as channel:

        def send(method: str, content: bytes) -> None:
            with contextlib.suppress(grpc.RpcError):
                call: Any = channel.unary_unary(f"/headrace.v1.InferenceService/{method}")
                call(content, timeout=60)

        for name, (method, content) in requests.items():
            walk.send(name, partial(send, method, content))
    walk.check()


def test_in_batches(filtering: RunningPlatform, walk: Walk) -> None:
    """Lines as large as bodies, and very many small ones."""
    texts = [{"messages": [{"role": "user", "content": repeated(piece)}]} for piece in FEW_TEXTS.values()]
    objects = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m","x":['
    contents = {
        "large lines": [_line(number, body) for number, body in enumerate(texts)],
        "objects": [objects + b"{}," * 2_600_000 + b"{}]}}"],
        "many lines": [_line(number, {"messages": []}) for number in range(20_000)],
    }
    with httpx2.Client(base_url=filtering.http, timeout=120, trust_env=False) as client:
        for name, lines in contents.items():
            walk.send(name, partial(_run_batch, client, b"\n".join(lines)))
    walk.check()


def _run_batch(client: httpx2.Client, content: bytes) -> None:
    """Runs a batch to its end, or until a few hundred of its lines are answered."""
    uploaded = client.post("/v1/files", files={"file": ("a.jsonl", content)}, data={"purpose": "batch"}).json()
    body = {"input_file_id": uploaded["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = client.post("/v1/batches", json=body).json()
    deadline = time.monotonic() + 60
    while batch["status"] not in ("completed", "failed", "cancelled") and time.monotonic() < deadline:
        time.sleep(0.1)
        batch = client.get(f"/v1/batches/{batch['id']}").json()
        if batch["request_counts"]["failed"] > 200 and batch["status"] == "in_progress":
            client.post(f"/v1/batches/{batch['id']}/cancel")
    client.delete(f"/v1/files/{uploaded['id']}")


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _line(number: int, body: Mapping[str, object]) -> bytes:
    line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": {"model": MODEL, **body}}
    return json.dumps(line).encode()


def test_every_file_is_closed_to_others(filtering: RunningPlatform) -> None:
    post(filtering.http, "/v1/responses", json.dumps({"model": MODEL, "input": "hello"}).encode())
    state = filtering.state_dir
    names = {path.relative_to(state).parts[0] for path in state.rglob("*")}
    assert {"cache", "files", "logs", "nats", "platform.json"} <= names
    assert [str(path) for path in (state, *state.rglob("*")) if path.lstat().st_mode & OTHERS] == []
