"""Files and batches through OpenAI's SDK: answered once each, whichever gateway ends, within limits."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import Batch
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.access.key_file import KeyFile
from headrace.access.key_record import KeyLimits

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
MODEL = "headrace-demo"
COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"
PATIENCE = 60.0
ENDED = ("completed", "failed", "expired", "cancelled")
PER_MINUTE = 60
CONFIG = """
[gateway]
keys_file = "{folder}/keys.json"
batch_concurrency = 8
{more}
[worker]
sim_base_seconds = 0.02
"""


class Platforms:
    """Starts platforms on one state folder, with the same keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        file = KeyFile(folder / "keys.json")
        self.acme = file.create("acme")[0].text
        self.other = file.create("other")[0].text
        self.limited = file.create("limited", limits=KeyLimits(requests_per_minute=PER_MINUTE))[0].text

    def run(self, *arguments: str, more: str = "") -> Any:
        config = self._folder / "platform.toml"
        config.write_text(CONFIG.format(folder=self._folder, more=more))
        command = ["--engine", "sim", "--config", str(config), *arguments]
        return running_platform(self._folder / "state", command)


@pytest.fixture(scope="module")
def platforms(tmp_path_factory: pytest.TempPathFactory) -> Platforms:
    return Platforms(tmp_path_factory.mktemp("batches"))


@pytest.fixture(scope="module")
def platform(platforms: Platforms) -> Iterator[RunningPlatform]:
    """Two gateways that ask for keys."""
    with platforms.run("--gateways", "2") as running:
        yield running


@pytest.fixture
def sdk(platform: RunningPlatform, platforms: Platforms) -> Iterator[openai.OpenAI]:
    with client_of(platform, platforms.acme) as client:
        yield client


def client_of(platform: RunningPlatform, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{platform.http}/v1", api_key=key, max_retries=5)


def request(number: int, url: str = COMPLETIONS, **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "prompt": [5, 6, number], "max_tokens": 12, "ignore_eos": True} | fields
    return {"custom_id": f"request-{number}", "method": "POST", "url": url, "body": body}


def requests(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [request(number, **fields) for number in range(count)]


def upload(sdk: openai.OpenAI, lines: list[dict[str, Any]]) -> str:
    content = "\n".join(map(json.dumps, lines)).encode()
    return sdk.files.create(file=("in.jsonl", content), purpose="batch").id


def create(sdk: openai.OpenAI, lines: list[dict[str, Any]], endpoint: Any = COMPLETIONS) -> Batch:
    return create_from(sdk, upload(sdk, lines), endpoint)


def create_from(sdk: openai.OpenAI, file_id: str, endpoint: Any = COMPLETIONS) -> Batch:
    return sdk.batches.create(
        input_file_id=file_id, endpoint=endpoint, completion_window="24h", metadata={"of": "a test"}
    )


def wait_for(sdk: openai.OpenAI, batch: Batch, condition: Callable[[Batch], bool]) -> Batch:
    deadline = time.monotonic() + PATIENCE
    while not condition(found := sdk.batches.retrieve(batch.id)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def ended(sdk: openai.OpenAI, batch: Batch) -> Batch:
    return wait_for(sdk, batch, lambda found: found.status in ENDED)


def results(sdk: openai.OpenAI, file_id: str | None) -> dict[str, Any]:
    """Lines of a file of results by their custom ids, each of which stands there once."""
    if file_id is None:
        return {}
    lines = [json.loads(line) for line in sdk.files.content(file_id).text.splitlines()]
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def counts(batch: Batch) -> tuple[int, int, int]:
    told = batch.request_counts
    assert told is not None
    return told.total, told.completed, told.failed


def completed(count: int) -> Callable[[Batch], bool]:
    return lambda batch: counts(batch)[1] >= count


def runner_of(platform: RunningPlatform, batch: Batch) -> str:
    """The gateway that was the last to begin to run a batch."""
    found = [
        (json.loads(line)["fence"], name)
        for name in ("gateway", "gateway-1")
        for line in platform.log(name).splitlines()
        if "runs a batch" in line and batch.id in line
    ]
    return max(found)[1]


def test_each_request_is_answered_once_although_its_gateway_is_killed_twice(
    platform: RunningPlatform, sdk: openai.OpenAI
) -> None:
    batch = create(sdk, requests(200))
    runners = []
    for count in (40, 110):
        wait_for(sdk, batch, completed(count))
        runners.append(runner_of(platform, batch))
        platform.kill(runners[-1])
    done = ended(sdk, batch)
    assert (done.status, counts(done)) == ("completed", (200, 200, 0))
    assert done.error_file_id is None
    found = results(sdk, done.output_file_id)
    assert found.keys() == {f"request-{number}" for number in range(200)}
    assert all(line["response"]["body"]["usage"]["completion_tokens"] == 12 for line in found.values())
    for name in set(runners):
        platform.wait_until_restarted(name, runners.count(name))


def test_a_file_is_stored_listed_and_deleted(sdk: openai.OpenAI) -> None:
    content = json.dumps(request(1)).encode()
    made = sdk.files.create(
        file=("a b.jsonl", content), purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600}
    )
    assert (made.filename, made.bytes, made.status) == ("a b.jsonl", len(content), "processed")
    assert made.expires_at == made.created_at + 3600
    assert sdk.files.retrieve(made.id) == made
    assert sdk.files.content(made.id).read() == content
    later = upload(sdk, requests(1))
    assert [file.id for file in sdk.files.list(purpose="batch", limit=2).data] == [later, made.id]
    assert [file.id for file in sdk.files.list(after=later, limit=1).data] == [made.id]
    assert sdk.files.list(order="asc").data[-1].id == later
    assert sdk.files.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        sdk.files.retrieve(made.id)


def test_faults_of_a_file_are_told_by_line(sdk: openai.OpenAI) -> None:
    faulty = [
        request(1),
        request(1),
        request(2, url=CHAT),
        request(3, model="other"),
        request(4, stream=True),
        {"method": "GET"},
    ]
    failed = ended(sdk, create(sdk, faulty))
    assert (failed.status, failed.output_file_id, failed.metadata) == ("failed", None, {"of": "a test"})
    assert failed.errors is not None
    assert [(error.line, error.code) for error in failed.errors.data or []] == [
        (2, "duplicate_custom_id"),
        (3, "mismatched_url"),
        (4, "mismatched_model"),
        (5, "unsupported_parameter"),
        (6, "missing_required_parameter"),
        (6, "invalid_method"),
        (6, "invalid_url"),
        (6, "missing_required_parameter"),
    ]


def test_requests_that_fail_stand_in_a_file_of_their_own(sdk: openai.OpenAI) -> None:
    lines = [request(1), request(2, temperature=9)]
    done = ended(sdk, create(sdk, lines))
    assert (done.status, counts(done)) == ("completed", (2, 1, 1))
    assert results(sdk, done.output_file_id).keys() == {"request-1"}
    refused = results(sdk, done.error_file_id)["request-2"]
    assert refused["response"]["status_code"] == 400
    assert refused["response"]["body"]["error"]["param"] == "temperature"


@pytest.mark.parametrize(
    ("endpoint", "body", "kind"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}, "chat.completion"),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 2}, "response"),
        ("/v1/moderations", {"input": "me@example.com"}, None),
    ],
)
def test_other_endpoints_answer_too(sdk: openai.OpenAI, endpoint: Any, body: dict[str, Any], kind: str | None) -> None:
    line = {"custom_id": "a", "method": "POST", "url": endpoint, "body": {"model": MODEL} | body}
    done = ended(sdk, create(sdk, [line], endpoint))
    answer = results(sdk, done.output_file_id)["a"]["response"]
    assert (answer["status_code"], answer["body"].get("object")) == (200, kind)


def test_a_batch_is_cancelled_and_keeps_what_it_has(sdk: openai.OpenAI) -> None:
    batch = create(sdk, requests(400))
    wait_for(sdk, batch, completed(1))
    assert sdk.batches.cancel(batch.id).status == "cancelling"
    done = ended(sdk, batch)
    total, answered, failed = counts(done)
    assert (done.status, total, failed) == ("cancelled", 400, 0)
    assert 1 <= answered < 400
    assert len(results(sdk, done.output_file_id)) == answered
    rest = results(sdk, done.error_file_id)
    assert len(rest) == 400 - answered
    assert {line["error"]["code"] for line in rest.values()} == {"batch_cancelled"}
    with pytest.raises(openai.BadRequestError):
        sdk.batches.cancel(batch.id)


def test_nobody_sees_what_belongs_to_another(
    platform: RunningPlatform, platforms: Platforms, sdk: openai.OpenAI
) -> None:
    lines = requests(1)
    batch = create(sdk, lines)
    file_id = batch.input_file_id
    with client_of(platform, platforms.other) as stranger:
        assert stranger.files.list().data == stranger.batches.list().data == []
        for ask in (stranger.files.retrieve, stranger.files.content, stranger.files.delete):
            with pytest.raises(openai.NotFoundError):
                ask(file_id)
        for look in (stranger.batches.retrieve, stranger.batches.cancel):
            with pytest.raises(openai.NotFoundError):
                look(batch.id)
        with pytest.raises(openai.NotFoundError):
            create_from(stranger, file_id)
    assert batch.id in [found.id for found in sdk.batches.list()]


def test_a_batch_goes_on_without_its_input_file(sdk: openai.OpenAI) -> None:
    batch = create(sdk, requests(30))
    sdk.files.delete(batch.input_file_id)
    assert counts(ended(sdk, batch)) == (30, 30, 0)


def test_the_limits_of_a_key_are_waited_for(platform: RunningPlatform, platforms: Platforms) -> None:
    with client_of(platform, platforms.limited) as sdk:
        done = ended(sdk, create(sdk, requests(PER_MINUTE + 4, max_tokens=1)))
    assert (done.status, counts(done)) == ("completed", (PER_MINUTE + 4, PER_MINUTE + 4, 0))


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"completion_window": "1h"}, "completion_window"), ({"endpoint": "/v1/rerank"}, "endpoint")],
)
def test_what_cannot_be_is_refused(sdk: openai.OpenAI, fields: dict[str, Any], param: str) -> None:
    given: dict[str, Any] = {"input_file_id": "file-x", "endpoint": COMPLETIONS, "completion_window": "24h"}
    with pytest.raises(openai.BadRequestError) as refusal:
        sdk.batches.create(**given | fields)
    assert refusal.value.param == param


def test_a_batch_outlives_the_platform_and_one_that_takes_too_long_expires(tmp_path: Path) -> None:
    platforms = Platforms(tmp_path)
    with platforms.run() as first, client_of(first, platforms.acme) as sdk:
        batch = create(sdk, requests(60))
        wait_for(sdk, batch, completed(10))
    with platforms.run(more="batch_seconds = 3") as second, client_of(second, platforms.acme) as sdk:
        late = create(sdk, requests(60, max_tokens=200))
        done = ended(sdk, batch)
        assert (done.status, counts(done)) == ("completed", (60, 60, 0))
        assert len(results(sdk, done.output_file_id)) == 60
        expired = ended(sdk, late)
        rest = results(sdk, expired.error_file_id)
        assert expired.status == "expired"
        assert {line["error"]["code"] for line in rest.values()} == {"batch_expired"}
        assert len(rest) + len(results(sdk, expired.output_file_id)) == 60
