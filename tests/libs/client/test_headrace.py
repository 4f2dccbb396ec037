"""The client against servers that refuse, break off, and say nothing."""

import asyncio
import json
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from headrace.client import Headrace
from headrace.errors import (
    ConfigError,
    DeadlineExceeded,
    HeadraceError,
    InvalidRequest,
    Overloaded,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from headrace.rpc.boundary import Boundary
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role_identity import RoleIdentity
from headrace.v1 import inference_pb2 as pb
from headrace.v1 import inference_pb2_grpc
from headrace.v1.generation_pb2 import FINISH_REASON_STOP

OVERLOADED = '{"error": {"message": "full", "type": "server_error", "param": null, "code": "overloaded"}}'
ANSWER = {
    "choices": [{"index": 0, "text": "yes", "finish_reason": "stop", "token_ids": [7]}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}
CHAT_ANSWER = {
    "choices": [{"index": 0, "message": {"content": "yes"}, "finish_reason": "stop", "token_ids": [7]}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}
EMBEDDINGS = {"data": [{"embedding": [1.0]}], "usage": {"prompt_tokens": 1}}
BASE, CHAT, ENCODER = (
    {"id": "base", "can_chat": False},
    {"id": "chat", "can_chat": True},
    {"id": "encoder", "embedding_size": 1},
)
EVENT = {"choices": [{"index": 0, "text": "ye", "finish_reason": None, "token_ids": [6]}], "usage": None}


def refusal(*headers: str, status: str = "503 Service Unavailable", content: str = OVERLOADED) -> bytes:
    head = [f"HTTP/1.1 {status}", f"content-length: {len(content)}", "content-type: application/json", *headers]
    return ("\r\n".join(head) + "\r\n\r\n" + content).encode()


def answer(content: dict[str, Any] | None = None) -> bytes:
    return refusal(status="200 OK", content=json.dumps(content or ANSWER))


@asynccontextmanager
async def server(
    *replies: bytes, closes: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """An HTTP server that gives one reply after the other, and then none; its address, and the requests it got."""
    requests: list[bytes] = []
    left = iter(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lengths = [int(line[16:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"]
                requests.append(head + await reader.readexactly(sum(lengths)))
                writer.write(next(left, b""))
                if closes:
                    return
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{listening.sockets[0].getsockname()[1]}", requests
    finally:
        listening.close()


def ask(*replies: bytes, closes: bool = False, **options: Any) -> tuple[Any, list[bytes]]:
    """Asks a server of these replies. Returns the answer or the error, and the requests."""

    async def asked() -> tuple[Any, list[bytes]]:
        async with server(*replies, closes=closes) as (address, requests), Headrace(address, key="k") as client:
            try:
                async with asyncio.timeout(20):
                    return await client.complete("a", model="m", **options), requests
            except HeadraceError as error:
                return error, requests

    return asyncio.run(asked())


def test_a_refusal_is_retried_when_it_says_so() -> None:
    found, requests = ask(refusal("retry-after-ms: 20", "x-should-retry: true"), answer(), request_id="mine")
    assert (found.text, found.token_ids, found.request_id) == ("yes", (7,), "mine")
    assert len(requests) == 2
    for request in requests:
        assert b"x-request-id: mine" in request.lower()
        assert b"authorization: bearer k" in request.lower()


def test_a_refusal_that_forbids_it_is_not() -> None:
    found, requests = ask(refusal("x-should-retry: false"), answer())
    assert (type(found), len(requests)) == (Overloaded, 1)
    assert found.details["request_id"]


def test_what_cannot_succeed_is_not() -> None:
    content = OVERLOADED.replace("overloaded", "invalid_api_key")
    found, requests = ask(refusal(status="401 Unauthorized", content=content), answer())
    assert (type(found), len(requests)) == (Unauthenticated, 1)


def test_a_dropped_connection_is_retried() -> None:
    found, requests = ask(b"", answer(), closes=True)
    assert (found.text, len(requests)) == ("yes", 2)


def asked_models(*models: dict[str, Any]) -> list[str]:
    """Returns the models that a chat, a further one and an embedding ask where these are served."""

    async def ask_each() -> list[bytes]:
        served = answer({"data": list(models)})
        replies = (served, answer(CHAT_ANSWER), answer(CHAT_ANSWER), served, answer(EMBEDDINGS))
        async with server(*replies) as (address, requests), Headrace(address) as client, asyncio.timeout(20):
            assert (await client.chat("a")).text == (await client.chat("b")).text == "yes"
            await client.embed(["a"])
            return requests

    requests = asyncio.run(ask_each())
    assert [request.split()[1] for request in requests].count(b"/v1/models") == 2
    return [json.loads(request.split(b"\r\n\r\n")[1])["model"] for request in requests if request[:4] == b"POST"]


def test_the_first_model_that_fits_is_asked_where_none_is_named() -> None:
    assert asked_models(ENCODER, BASE, CHAT) == ["chat", "chat", "encoder"]
    assert asked_models(BASE, ENCODER) == ["base", "base", "encoder"]


def test_a_silent_server_ends_with_the_deadline() -> None:
    found, requests = ask(timeout=0.2)
    assert (type(found), len(requests)) == (DeadlineExceeded, 1)
    (left,) = re.findall(rb"x-headrace-timeout-ms: (\d+)", requests[0].lower())
    assert 100 < int(left) <= 200


@pytest.mark.parametrize("content", ["<html>", "{}", "[]", '{"choices": [], "usage": {}}', '{"choices": [{}]}'])
def test_something_that_is_no_platform_is_named(content: str) -> None:
    found, _ = ask(refusal(status="200 OK", content=content), timeout=0.3)
    assert type(found) is Unavailable
    assert "no platform answers at http://127.0.0.1" in found.message


def test_a_stream_that_breaks_off_is_not_taken_for_whole() -> None:
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    event = f"data: {json.dumps(EVENT)}\n\n"
    whole = f"{head}{len(event):x}\r\n{event}\r\n"

    async def read(reply: str) -> tuple[list[str], Any]:
        async with server(reply.encode(), closes=True) as (address, requests), Headrace(address) as client:
            seen: list[str] = []
            stream = client.stream_complete("a", model="m")
            try:
                async with asyncio.timeout(20):
                    async for chunk in stream:
                        seen += [chunk.text]
            except Unavailable as error:
                assert len(requests) == 1, "a stream that has begun must not be repeated"
                return seen, error
            raise AssertionError("the stream ended as if it were whole")

    for reply in (whole, f"{whole}0\r\n\r\n"):
        seen, error = asyncio.run(read(reply))
        assert seen == ["ye"]
        assert error.details["request_id"]


def test_an_error_within_a_stream_is_raised() -> None:
    event = f"data: {OVERLOADED}\n\n"
    reply = f"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{len(event):x}\r\n{event}\r\n0\r\n\r\n".encode()

    async def read() -> None:
        async with server(reply) as (address, _), Headrace(address, retries=0) as client:
            async for _chunk in client.stream_complete("a", model="m"):
                raise AssertionError("a chunk came")

    with pytest.raises(Overloaded, match="full"):
        asyncio.run(read())


class Refusing:
    """Refuses the first call, and answers the second."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.keys: list[Any] = []

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> pb.GenerateResponse:
        self.keys.append(dict(context.invocation_metadata()).get("authorization"))
        if len(self.keys) == 1:
            raise self.error
        return pb.GenerateResponse(result=pb.GenerationResult(text="yes", finish_reason=FINISH_REASON_STOP))


def whole(servicer: Refusing) -> Any:
    """The servicer, with the calls that it does not have."""
    names = pb.DESCRIPTOR.services_by_name["InferenceService"].methods_by_name
    return type("Whole", (), dict.fromkeys(names) | {"Generate": staticmethod(servicer.Generate)})()


def over_grpc(
    servicer: Refusing,
    asked: Callable[[Headrace], Awaitable[Any]],
    identity: RoleIdentity | None = None,
    authority: Path | None = None,
) -> Any:
    scheme = "grpc" if identity is None else "grpcs"

    async def run() -> Any:
        refusing = grpc.aio.server(interceptors=[Boundary()])
        inference_pb2_grpc.add_InferenceServiceServicer_to_server(whole(servicer), refusing)
        if identity is None:
            port = refusing.add_insecure_port("127.0.0.1:0")
        else:
            shown = grpc.ssl_server_credentials([(identity.private_key, identity.certificate)])
            port = refusing.add_secure_port("127.0.0.1:0", shown)
        await refusing.start()
        try:
            place = f"{scheme}://127.0.0.1:{port}"
            async with Headrace(place, key="k", model="m", authority=authority) as client, asyncio.timeout(20):
                return await asked(client)
        finally:
            await refusing.stop(0)

    return asyncio.run(run())


def test_grpc_is_retried_alike() -> None:
    servicer = Refusing(Overloaded("full", retry_after=0.02))
    assert over_grpc(servicer, lambda client: client.complete("a")).text == "yes"
    assert servicer.keys == ["Bearer k", "Bearer k"]
    limited = Refusing(RateLimited("your limit"))
    with pytest.raises(RateLimited, match="your limit"):
        over_grpc(limited, lambda client: client.complete("a"))
    assert len(limited.keys) == 1


@pytest.mark.process
def test_it_needs_none_of_the_extras() -> None:
    extras = ["starlette", "uvicorn", "msgspec", "numpy", "tokenizers", "lmdb", "psutil", "headrace.gateway", "nats"]
    code = f"import sys, headrace.client; print([name for name in {extras} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_addresses_and_options_that_make_no_sense() -> None:
    for address in ("127.0.0.1:8000", "ftp://a", "grpc:a"):
        with pytest.raises(ConfigError, match="grpcs://HOST:PORT"):
            Headrace(address)

    async def misuse() -> None:
        async with Headrace("http://127.0.0.1:1") as client:
            with pytest.raises(TypeError, match="unknown option 'temperatur'"):
                await client.chat("a", temperatur=1)  # type: ignore[call-arg]
            with pytest.raises(InvalidRequest, match="list of texts"):
                await client.chat("a", stop="b")

    asyncio.run(misuse())


@pytest.fixture
def identity(tmp_path: Path) -> RoleIdentity:
    """A certificate of this machine, whose authority no system trusts."""
    made = CertificateFolder(tmp_path / "certificates").create(["127.0.0.1"], days=2)
    return next(each for each in made if each.role == "gateway")


def test_certificates_are_trusted_over_http_only_if_their_authority_is(identity: RoleIdentity) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(identity.folder / "tls.crt", identity.folder / "tls.key")

    async def asked(authority: Path | None) -> Any:
        async with (
            server(answer(), tls=tls) as (address, requests),
            Headrace(address, model="m", retries=0, authority=authority) as client,
            asyncio.timeout(20),
        ):
            return (await client.complete("a")).text, len(requests)

    assert asyncio.run(asked(identity.folder / "ca.crt")) == ("yes", 1)
    with pytest.raises(Unavailable, match="certificate"):
        asyncio.run(asked(None))


def test_certificates_are_trusted_over_grpc_only_if_their_authority_is(identity: RoleIdentity) -> None:
    def asked(client: Headrace) -> Awaitable[Any]:
        return client.complete("a", timeout=10)

    servicer = Refusing(Overloaded("full", retry_after=0.02))
    assert over_grpc(servicer, asked, identity, identity.folder / "ca.crt").text == "yes"
    strangers = Refusing(Overloaded("full", retry_after=0.02))
    with pytest.raises(Unavailable, match=r"no platform answers at 127\.0\.0\.1"):
        over_grpc(strangers, asked, identity)
    assert strangers.keys == []
