"""TLS at the REST bridge: it answers clients that trust its certificate, and a bad one stops the start."""

import asyncio
import ssl
from pathlib import Path

import httpx2
import pytest
from tests.own_certificate import make_certificate
from tests.services.gateway.served_bridge import serving

from headrace.errors import ConfigError

pytestmark = pytest.mark.anyio


async def test_it_speaks_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    async with serving(tls_certificate=certificate, tls_key=key) as gateway:
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with httpx2.AsyncClient(verify=trusting) as client:
            answer = await client.get(f"https://127.0.0.1:{gateway.port}/health")
        assert answer.json() == {"status": "alive"}
        async with httpx2.AsyncClient() as client:
            with pytest.raises(httpx2.HTTPError):
                await client.get(f"https://127.0.0.1:{gateway.port}/health")
            with pytest.raises(httpx2.HTTPError):
                await client.get(f"http://127.0.0.1:{gateway.port}/health")


async def test_a_renewed_certificate_is_shown_from_the_next_connection_on(tmp_path: Path) -> None:
    """An open connection continues, and files that do not fit yet leave the old ones in force."""
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "next").mkdir()
    renewed, renewed_key = make_certificate(tmp_path / "next")
    async with serving(tls_certificate=certificate, tls_key=key) as gateway:
        url = f"https://127.0.0.1:{gateway.port}/health"
        address = ("127.0.0.1", gateway.port)
        first = await shown_certificate(*address)
        trusting = ssl.create_default_context(cafile=str(certificate))
        async with httpx2.AsyncClient(verify=trusting) as open_client:
            await open_client.get(url)
            certificate.write_bytes(renewed.read_bytes())
            assert await shown_certificate(*address) == first, "its key is still the old one"
            key.write_bytes(renewed_key.read_bytes())
            second = await shown_certificate(*address)
            assert second == ssl.PEM_cert_to_DER_cert(renewed.read_text())
            assert second != first
            assert await shown_certificate(*address) == second
            assert (await open_client.get(url)).status_code == 200, "the connection that was open is as it was"


async def shown_certificate(host: str, port: int) -> bytes | None:
    """Returns the certificate that a new connection is shown, as DER."""
    anything = ssl.create_default_context()
    anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=anything)
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    certificate = found.getpeercert(binary_form=True)
    writer.close()
    return certificate


async def test_a_bad_certificate_stops_the_start(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    certificate.write_text("nonsense")
    with pytest.raises(ConfigError, match="cannot be used"):
        async with serving(tls_certificate=certificate, tls_key=key):
            pass
    with pytest.raises(ConfigError, match="belong together"):
        async with serving(tls_certificate=certificate):
            pass
