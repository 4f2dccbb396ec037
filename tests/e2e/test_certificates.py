"""A platform with a certificate for each service: everything works as without, and other identities are refused."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from tests.harness.running_platform import RunningPlatform, running_platform

from headrace.access.key_file import FILE_NAME, KeyFile
from headrace.errors import Forbidden, Unavailable
from headrace.rpc.channel import open_channel
from headrace.security.certificates.authority import Authority, SignedPair
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role_identity import RoleIdentity, read_identity
from headrace.security.nats_login import NatsLogin
from headrace.service_clients.cache import GrpcCacheClient
from headrace.service_clients.scheduler import explain
from headrace.service_clients.worker import GrpcWorkerClient
from headrace.supervisor.state import read_credential
from headrace.v1 import inference_pb2, inference_pb2_grpc

pytestmark = pytest.mark.slow
MODEL = "headrace-demo"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "What is a headrace?"}], "max_tokens": 8}
INTRUDER = "intruder"
NOBODYS = "subject.of.nobody"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates as the command makes them."""
    path = tmp_path_factory.mktemp("certificates")
    headrace("certs", "create", "--folder", str(path))
    return path


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def key(state: Path) -> str:
    """A key with a limit, so that its budget is kept in NATS."""
    key, _ = KeyFile(state / FILE_NAME).create("limited", limits={"requests_per_day": 100})
    return key.text


@pytest.fixture(scope="module")
def guarded(folder: Path, state: Path, key: str, minilm: Path) -> Iterator[RunningPlatform]:
    models = [MODEL, f"minilm={minilm}"]
    with running_platform(state, ["--certificates", str(folder), *models]) as platform:
        yield platform


def headrace(*arguments: str) -> str:
    command = [sys.executable, "-m", "headrace.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def identity(folder: Path, role: str) -> RoleIdentity:
    return read_identity(folder / role)


def post(platform: RunningPlatform, path: str, key: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
    sent = {"authorization": f"Bearer {key}"} | headers
    return httpx2.post(f"{platform.http}{path}", json=body, headers=sent, timeout=30)


def test_chat_over_rest_and_grpc(guarded: RunningPlatform, key: str) -> None:
    answer = post(guarded, "/v1/chat/completions", key, CHAT)
    assert answer.status_code == 200, answer.text
    with grpc.insecure_channel(guarded.grpc) as channel:
        stub = inference_pb2_grpc.InferenceServiceStub(channel)
        request = inference_pb2.GenerateRequest(model=MODEL, text="Continuous batching is")
        result = stub.Generate(request, timeout=30, metadata=(("authorization", f"Bearer {key}"),)).result
    assert result.text


def test_limits_are_counted_together_in_nats(guarded: RunningPlatform, key: str) -> None:
    left = [
        int(post(guarded, "/v1/chat/completions", key, CHAT).headers["x-ratelimit-remaining-requests"])
        for _ in range(2)
    ]
    assert left[1] == left[0] - 1
    assert guarded.metrics()["headrace_limits_alone"] == 0


def test_a_scheduler_leads_by_a_lease_in_nats(guarded: RunningPlatform, key: str) -> None:
    assert post(guarded, "/v1/chat/completions", key, CHAT).status_code == 200
    assert "leads a model" in guarded.log("scheduler")
    assert "the store of leases does not answer" not in guarded.log("scheduler")


def test_embeddings_and_the_cache(guarded: RunningPlatform, key: str) -> None:
    body = {"model": "minilm", "input": ["a wheel"]}
    answers = [post(guarded, "/v1/embeddings", key, body, **{"x-headrace-cache": "on"}).json() for _ in range(2)]
    assert answers[0]["data"] == answers[1]["data"]


def test_a_client_that_leaves_cancels_its_request(guarded: RunningPlatform, key: str) -> None:
    body = CHAT | {"max_tokens": 1500, "ignore_eos": True, "stream": True}
    headers = {"authorization": f"Bearer {key}"}
    url = f"{guarded.http}/v1/chat/completions"
    with httpx2.stream("POST", url, json=body, headers=headers, timeout=30) as response:
        next(response.iter_lines())
    guarded.wait_until_idle()


def test_explain_shows_the_operators_certificate(guarded: RunningPlatform, key: str) -> None:
    asked = post(guarded, "/v1/chat/completions", key, CHAT).headers["x-request-id"]
    shown = json.loads(headrace("explain", asked, "--json", "--state-dir", str(guarded.state_dir)))
    assert any("worker-0" in entry["text"] for entry in shown["entries"])


def test_explain_finds_a_scheduler_by_its_address(guarded: RunningPlatform, folder: Path, key: str) -> None:
    asked = post(guarded, "/v1/chat/completions", key, CHAT).headers["x-request-id"]
    command = [sys.executable, "-m", "headrace.cli", "explain", asked, "--json"]
    command += ["--address", guarded.service("scheduler")["address"]]
    known = ["--certificates", str(folder)]
    given = {"HEADRACE_SCHEDULER_CREDENTIAL": read_credential(guarded.state_dir)}
    file = {"HEADRACE_SCHEDULER_CREDENTIAL_FILE": str(guarded.state_dir / "credential")}
    for arguments, shown, found in (
        ([], given, "--certificates"),
        (known, given, "worker-0"),
        (known, file, "worker-0"),
    ):
        environment = os.environ | shown
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=60, check=False, env=environment
        )
        assert found in done.stdout, done.stderr


def test_nats_forbids_the_services_nothing_that_they_do(guarded: RunningPlatform) -> None:
    lines = guarded.log("nats").splitlines()
    assert [line for line in lines if "[ERR]" in line and INTRUDER not in line and "TLS" not in line] == []


def call(platform: RunningPlatform, name: str, shown: RoleIdentity | None, method: str) -> None:
    """Calls a service as somebody who has the platform's credential. Raises the refusal."""

    async def ask() -> None:
        role = name.partition("-")[0]
        address = platform.service(name)["address"]
        async with open_channel(address, read_credential(platform.state_dir), shown, role) as channel:
            match method:
                case "status":
                    await GrpcWorkerClient(channel).get_status(5)
                case "blocks":
                    await GrpcWorkerClient(channel).list_blocks(5)
                case "explain":
                    await explain(channel, "x", 5)
                case "prefix":
                    await GrpcCacheClient(channel).lookup_prefix(MODEL, [b"x"], 5)

    asyncio.run(ask())


def test_the_list_says_when_they_end(folder: Path) -> None:
    listed = json.loads(headrace("certs", "list", "--folder", str(folder), "--json"))["certificates"]
    assert [(entry["role"], entry["fingerprint"]) for entry in listed] == [
        (known.role, known.fingerprint) for known in CertificateFolder(folder).list_identities()
    ]


@pytest.mark.parametrize(
    ("role", "name", "method"),
    [("operator", "worker-0", "status"), ("cache", "worker-0", "blocks"), ("operator", "scheduler", "explain")],
)
def test_a_role_may_call_what_it_has_to(
    guarded: RunningPlatform, folder: Path, role: str, name: str, method: str
) -> None:
    call(guarded, name, identity(folder, role), method)


@pytest.mark.parametrize(
    ("role", "name", "method"),
    [
        ("worker", "scheduler", "explain"),
        ("gateway", "scheduler", "explain"),
        ("tokenizer", "worker-0", "status"),
        ("gateway", "worker-0", "blocks"),
        ("worker", "cache", "prefix"),
    ],
)
def test_no_role_may_call_more(guarded: RunningPlatform, folder: Path, role: str, name: str, method: str) -> None:
    with pytest.raises(Forbidden, match=f"the role {role} may not call"):
        call(guarded, name, identity(folder, role), method)


def test_strangers_do_not_get_through_the_handshake(guarded: RunningPlatform, folder: Path, tmp_path: Path) -> None:
    CertificateFolder(tmp_path / "other").create()
    for shown in (
        None,
        identity(tmp_path / "other", "operator"),
        with_pair(identity(folder, "operator"), expired_pair(folder, "operator")),
    ):
        with pytest.raises(Unavailable):
            call(guarded, "worker-0", shown, "status")


def with_pair(original: RoleIdentity, pair: SignedPair) -> RoleIdentity:
    fields = {name: getattr(original, name) for name in original.__slots__}
    return RoleIdentity(**fields | {"certificate": pair.certificate, "private_key": pair.private_key})


@pytest.mark.parametrize(
    ("role", "subject", "may"),
    [
        ("worker", "headrace.v1.worker.w.heartbeat_sent", True),
        ("worker", "headrace.v1.scheduler.s.heartbeat_sent", False),
        ("scheduler", "headrace.v1.worker.w.heartbeat_sent", False),
        ("tokenizer", "headrace.v1.worker.worker-0.deregistered", False),
        ("worker", "$KV.headrace_limits.key", False),
        ("worker", "$JS.API.DIRECT.GET.KV_headrace_limits.$KV.headrace_limits.key", False),
        ("scheduler", "$JS.API.STREAM.PURGE.KV_headrace_leases", False),
    ],
)
def test_nats_holds_a_role_to_its_subjects(
    guarded: RunningPlatform, folder: Path, role: str, subject: str, may: bool
) -> None:
    assert asyncio.run(refusals(guarded, identity(folder, role), subject)) == ([] if may else ["permissions violation"])


@pytest.mark.parametrize("subject", ["headrace.>", "_INBOX_gateway.>", "_INBOX.>", "$KV.headrace_limits.>"])
def test_nats_lets_a_worker_hear_no_others(guarded: RunningPlatform, folder: Path, subject: str) -> None:
    refused = asyncio.run(refusals(guarded, identity(folder, "worker"), subject, hears=True))
    assert refused == ["permissions violation"]


async def refusals(platform: RunningPlatform, shown: RoleIdentity, subject: str, *, hears: bool = False) -> list[str]:
    """Publishes or subscribes at NATS, and returns the refusals. Ends at the refusal of a subject that is closed to
    all, which comes after the others."""
    found: list[str] = []
    ended = asyncio.Event()

    async def note(error: Exception) -> None:
        if NOBODYS in str(error):
            ended.set()
        elif not ended.is_set():
            found.append("permissions violation" if "permissions violation" in str(error) else repr(error))

    client = Client()
    address = platform.service("nats")["address"]
    login = NatsLogin(shown).options
    await client.connect(
        f"nats://{address}", name=INTRUDER, error_cb=note, allow_reconnect=False, connect_timeout=2, **login
    )
    if hears:
        await client.subscribe(subject)
    else:
        await client.publish(subject, b"")
    await client.publish(NOBODYS, b"")
    async with asyncio.timeout(5):
        await ended.wait()
    await client.close()
    return found


@pytest.mark.parametrize("stranger", ["other authority", "expired"])
def test_nats_knows_only_certificates_of_the_platform(
    guarded: RunningPlatform, folder: Path, tmp_path: Path, stranger: str
) -> None:
    CertificateFolder(tmp_path).create()
    shown = identity(tmp_path, "worker")
    (shown.folder / "ca.crt").write_bytes(identity(folder, "worker").authority)
    if stranger == "expired":
        pair = expired_pair(folder, "worker")
        (shown.folder / "tls.crt").write_bytes(pair.certificate)
        (shown.folder / "tls.key").write_bytes(pair.private_key)
    with pytest.raises((OSError, NatsError, asyncio.TimeoutError)):
        asyncio.run(refusals(guarded, shown, "headrace.v1.worker.w.heartbeat_sent"))


def expired_pair(folder: Path, role: str) -> SignedPair:
    authority = SignedPair(*((folder / "authority" / name).read_bytes() for name in ("tls.crt", "tls.key")))
    return Authority(authority).issue(role, [], 0)


def test_renewed_certificates_are_used_beside_those_of_before(guarded: RunningPlatform, folder: Path, key: str) -> None:
    before = {known.role: known.fingerprint for known in CertificateFolder(folder).list_identities()}
    renewed = json.loads(headrace("certs", "renew", "--folder", str(folder), "--json"))["certificates"]
    assert all(entry["fingerprint"] != before[entry["role"]] for entry in renewed)
    guarded.kill("worker-0")
    guarded.wait_until_restarted("worker-0", 1)
    # What still shows the former ones, and what shows the new ones, answer each other.
    answer = post(guarded, "/v1/chat/completions", key, CHAT)
    assert answer.status_code == 200, answer.text
    call(guarded, "worker-0", identity(folder, "operator"), "status")
    call(guarded, "scheduler", identity(folder, "operator"), "explain")
