"""Lines of batches are answered by the endpoints themselves, within the bounds of any other request."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.access.key_file import KeyFile
from headrace.errors import ModelNotFound
from headrace.gateway.access.gate import OPEN_GATE, Gate
from headrace.gateway.access.key_ring import KeyRing
from headrace.gateway.batches.lines.batch_input import BatchLine
from headrace.gateway.batches.lines.line_call import LineCall
from headrace.gateway.batches.lines.line_caller import LineCaller
from headrace.gateway.batches.lines.line_endpoint import LineEndpoint
from headrace.gateway.batches.storage.batch_record import BatchRecord
from headrace.gateway.config import GatewaySettings
from headrace.gateway.timing.recent_requests import RecentRequests

pytestmark = pytest.mark.anyio
PATH = "/v1/completions"
RECENT = RecentRequests()


def batch(key: dict[str, object] | None = None) -> BatchRecord:
    now = int(time.time())
    return BatchRecord(
        id="batch_a",
        tenant="public",
        key=key,
        endpoint=PATH,
        input_file_id="file-a",
        completion_window="24h",
        created=now,
        expires=now + 60,
    )


async def echo(call: LineCall, content: bytes) -> None:
    await call.send_json(200, {"said": json.loads(content), "class": call.header("x-headrace-class")})


async def refuse(_call: LineCall, _content: bytes) -> None:
    raise ModelNotFound("there is no such model", param="model")


async def fail(_call: LineCall, _content: bytes) -> None:
    raise ZeroDivisionError


def caller(answer: Callable[..., object], gate: Gate = OPEN_GATE, scope: str = "generate") -> LineCaller:
    endpoints = {PATH: LineEndpoint(answer, frozenset({scope}))}  # type: ignore[arg-type]
    return LineCaller(endpoints, gate, RECENT, GatewaySettings(max_body_bytes=10_000))


async def test_an_endpoint_answers_in_the_class_of_batches() -> None:
    call = await caller(echo).call(batch(), BatchLine("one", b'{"model": "m"}'), 5)
    assert (call.status, json.loads(call.body)) == (200, {"said": {"model": "m"}, "class": "batch"})
    assert RECENT.newest("public", 1) == [call.record]


async def test_an_error_is_the_answer_of_the_line() -> None:
    call = await caller(refuse).call(batch(), BatchLine("one", b"{}"), 5)
    assert (call.status, json.loads(call.body)["error"]["param"]) == (404, "model")
    assert call.record.outcome == "model_not_found"


async def test_an_unexpected_failure_tells_nothing_of_itself() -> None:
    call = await caller(fail).call(batch(), BatchLine("one", b"{}"), 5)
    assert call.status == 500
    assert b"ZeroDivision" not in call.body


@pytest.mark.parametrize(
    ("body", "status"), [(b"[" * 200 + b"]" * 200, 400), (b'{"x": "' + b"y" * 10_000 + b'"}', 413)]
)
async def test_a_body_has_the_bounds_of_any_other(body: bytes, status: int) -> None:
    assert (await caller(echo).call(batch(), BatchLine("one", body), 5)).status == status


async def test_the_key_of_the_batch_needs_the_scope_of_the_endpoint(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    _, record = file.create("public", scopes=("embed",))
    gate = Gate(KeyRing(file.path))
    made = batch(record.model_dump(mode="json"))
    assert (await caller(echo, gate, "embed").call(made, BatchLine("one", b"{}"), 5)).status == 200
    assert (await caller(echo, gate, "generate").call(made, BatchLine("one", b"{}"), 5)).status == 403
    assert (await caller(echo, gate, "embed").call(batch(), BatchLine("one", b"{}"), 5)).status == 401
