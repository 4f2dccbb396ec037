"""Services show certificates where their settings name them: mutually inside, and their own to clients from outside."""

from pathlib import Path
from typing import Any

import pytest

from headrace.bus.memory_bus import MemoryBus
from headrace.errors import ConfigError
from headrace.lifecycle import Service, ServiceSettings, channels_to
from headrace.lifecycle.run import serving
from headrace.lifecycle.security import check_identity, credential_of, nats_token_of
from headrace.rpc.channel import open_channel, open_public_channel
from headrace.rpc.health import is_serving
from headrace.security.certificates.authority import Authority, SignedPair
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role_identity import read_identity

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    CertificateFolder(tmp_path / "certificates").create()
    return tmp_path / "certificates"


def settings(**values: Any) -> ServiceSettings:
    return ServiceSettings.of(service_id="s", **values)


def service(kind: str, **values: Any) -> Service:
    return Service(kind=kind, bus=MemoryBus(), bind=lambda _: None, service_names=[], epoch=1, **values)


async def test_a_service_inside_is_reached_with_a_certificate_only(folder: Path) -> None:
    async with serving(settings(certificates=folder / "cache"), service("cache")) as address:
        async with channels_to("cache", settings(certificates=folder / "gateway"))(address) as channel:
            assert await is_serving(channel, 5)
        async with channels_to("cache", settings())(address) as channel:
            assert not await is_serving(channel, 5)


async def test_a_gateway_shows_clients_its_own_certificate_whatever_it_has_inside(folder: Path) -> None:
    files = folder / "nats" / "tls.crt", folder / "nats" / "tls.key"
    without: dict[str, Path] = {}
    for inside in (without, {"certificates": folder / "gateway"}):
        made = service("gateway", is_public=True, tls_files=files)
        async with serving(settings(**inside), made) as address:
            async with open_public_channel(address, files[0]) as channel:
                assert await is_serving(channel, 5)
            async with open_channel(address) as channel:
                assert not await is_serving(channel, 5)


async def test_a_gateway_without_a_certificate_for_clients_answers_in_plain_text(folder: Path) -> None:
    made = service("gateway", is_public=True)
    async with (
        serving(settings(certificates=folder / "gateway"), made) as address,
        open_channel(address) as channel,
    ):
        assert await is_serving(channel, 5)


def test_an_expired_certificate_stops_the_start(folder: Path) -> None:
    authority = SignedPair(*((folder / "authority" / name).read_bytes() for name in ("tls.crt", "tls.key")))
    pair = Authority(authority).issue("cache", [], 0)
    (folder / "cache" / "tls.crt").write_bytes(pair.certificate)
    (folder / "cache" / "tls.key").write_bytes(pair.private_key)
    assert read_identity(folder / "cache").role == "cache"
    with pytest.raises(ConfigError, match="expired"):
        check_identity(settings(certificates=folder / "cache"))


def test_nats_gets_the_secret_of_the_file_unless_its_url_has_one(tmp_path: Path) -> None:
    """A secret that is given by itself is for the services alone, as the URL can hold another."""
    file = tmp_path / "credential"
    file.write_text("hr-1234\n")
    own = settings(credential_file=file)
    assert (credential_of(own), nats_token_of(own)) == ("hr-1234", "hr-1234")
    assert nats_token_of(settings(credential_file=file, nats_url="nats://other@127.0.0.1:4222")) == ""
    assert (credential_of(settings(credential="c")), nats_token_of(settings(credential="c"))) == ("c", "")


def test_two_secrets_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set one of them"):
        credential_of(settings(credential="c", credential_file=tmp_path))
