"""Servers and channels with certificates: each side trusts a role, and a renewed one is used without a restart."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.own_certificate import make_certificate

from headrace.errors import ConfigError, Forbidden, HeadraceError
from headrace.kv.held_prefix import HeldPrefix
from headrace.rpc.channel import open_channel, open_public_channel
from headrace.rpc.health import is_serving
from headrace.rpc.server import Server, ServerSecurity
from headrace.security.certificates.authority import Authority, SignedPair
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role_identity import RoleIdentity, read_identity
from headrace.security.port_tls import mutual_tls, public_tls
from headrace.service_clients.cache import GrpcCacheClient
from headrace.v1 import cache_pb2 as pb
from headrace.v1 import cache_pb2_grpc

pytestmark = pytest.mark.anyio


class Cache(cache_pb2_grpc.CacheServiceServicer):
    async def LookupPrefix(self, request: pb.LookupPrefixRequest, context: Any) -> pb.LookupPrefixResponse:
        return pb.LookupPrefixResponse(matches=[pb.PrefixMatch(worker_id="w", block_count=1)])


def bind(server: grpc.aio.Server) -> None:
    cache_pb2_grpc.add_CacheServiceServicer_to_server(Cache(), server)  # type: ignore[abstract]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CertificateFolder(tmp_path / "ours").create()
    return tmp_path / "ours"


@pytest.fixture
async def address(folder: Path) -> AsyncIterator[str]:
    security = ServerSecurity(mutual=mutual_tls(read_identity(folder / "cache")))
    server = Server(bind, ["headrace.v1.CacheService"], "secret", security=security)
    yield await server.start("127.0.0.1:0")
    await server.stop(0)


async def ask(address: str, shown: RoleIdentity | None, role: str = "cache", credential: str = "secret") -> str:
    async with open_channel(address, credential, shown, role) as channel:
        try:
            assert await GrpcCacheClient(channel).lookup_prefix("m", [b"x"], 5) == {"w": HeldPrefix(1)}
        except HeadraceError as error:
            return type(error).__name__
        return "answered"


async def test_a_role_is_answered_what_it_may_ask(address: str, folder: Path) -> None:
    assert await ask(address, read_identity(folder / "scheduler")) == "answered"
    assert await ask(address, read_identity(folder / "worker")) == "Forbidden"
    assert await ask(address, read_identity(folder / "scheduler"), credential="") == "Unauthenticated"


async def test_the_refusal_says_who_and_what(address: str, folder: Path) -> None:
    async with open_channel(address, "secret", read_identity(folder / "worker"), "cache") as channel:
        with pytest.raises(Forbidden, match=r"the role worker may not call .*/LookupPrefix"):
            await GrpcCacheClient(channel).lookup_prefix("m", [b"x"], 5)


async def test_a_client_trusts_the_role_that_it_calls_only(address: str, folder: Path) -> None:
    assert await ask(address, read_identity(folder / "scheduler"), "worker") == "Unavailable"


async def test_strangers_get_no_connection(address: str, folder: Path, tmp_path: Path) -> None:
    CertificateFolder(tmp_path / "theirs").create()
    assert await ask(address, None) == "Unavailable"
    assert await ask(address, read_identity(tmp_path / "theirs" / "scheduler")) == "Unavailable"
    expired = renew(folder, "scheduler", 0)
    assert await ask(address, expired) == "Unavailable"
    # Health is for whoever has a certificate.
    async with open_channel(address) as channel:
        assert not await is_serving(channel, 5)


def renew(folder: Path, role: str, days: int) -> RoleIdentity:
    authority = SignedPair(*((folder / "authority" / name).read_bytes() for name in ("tls.crt", "tls.key")))
    pair = Authority(authority).issue(role, [], days)
    (folder / role / "tls.crt").write_bytes(pair.certificate)
    (folder / role / "tls.key").write_bytes(pair.private_key)
    return read_identity(folder / role)


async def test_a_renewed_certificate_is_used_from_the_next_connection_on(address: str, folder: Path) -> None:
    scheduler = read_identity(folder / "scheduler")
    before = read_identity(folder / "cache").certificate
    assert await ask(address, scheduler) == "answered"
    # Shows an expired one, which clients refuse: so it is the new one that they see.
    renew(folder, "cache", 0)
    assert await ask(address, scheduler) == "Unavailable"
    (folder / "cache" / "tls.crt").write_bytes(before)
    assert await ask(address, scheduler) == "Unavailable", "a certificate without its key is not used"
    renew(folder, "cache", 1)
    assert await ask(address, scheduler) == "answered"


async def test_a_public_server_shows_its_certificate_and_asks_for_none(folder: Path) -> None:
    files = folder / "gateway" / "tls.crt", folder / "gateway" / "tls.key"
    security = ServerSecurity(mutual_tls(read_identity(folder / "gateway")), public_tls(*files))
    server = Server(bind, ["headrace.v1.CacheService"], "secret", is_public=True, security=security)
    address = await server.start("127.0.0.1:0")
    await server.set_serving(True)
    try:
        async with open_public_channel(address, files[0]) as own:
            assert await is_serving(own, 5)
        trusting = grpc.ssl_channel_credentials(read_identity(folder / "gateway").authority)
        async with grpc.aio.secure_channel(address, trusting) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)
        async with open_channel(address) as plain:
            assert not await is_serving(plain, 5)
    finally:
        await server.stop(0)


async def test_a_public_server_shows_a_renewed_certificate_to_the_next_connection(tmp_path: Path) -> None:
    """A stream that is open continues on the old one."""
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "next").mkdir()
    renewed, renewed_key = make_certificate(tmp_path / "next")
    server = Server(
        bind, ["headrace.v1.CacheService"], is_public=True, security=ServerSecurity(public=public_tls(certificate, key))
    )
    address = await server.start("127.0.0.1:0")
    await server.set_serving(True)
    before = grpc.ssl_channel_credentials(certificate.read_bytes())
    after = grpc.ssl_channel_credentials(renewed.read_bytes())
    request = health_pb2.HealthCheckRequest()
    try:
        async with grpc.aio.secure_channel(address, before) as old:
            watched = health_pb2_grpc.HealthStub(old).Watch(request, timeout=20)
            assert (await watched.read()).status == health_pb2.HealthCheckResponse.SERVING
            certificate.write_bytes(renewed.read_bytes())
            key.write_bytes(renewed_key.read_bytes())
            async with grpc.aio.secure_channel(address, after) as new:
                assert await is_serving(new, 5)
            await server.set_serving(False)
            assert (await watched.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    finally:
        await server.stop(0)


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be used"):
        public_tls(tmp_path / "none.crt", tmp_path / "none.key")
