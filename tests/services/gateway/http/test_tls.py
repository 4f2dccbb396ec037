"""TLS at the REST bridge: it answers whoever trusts its certificate, and a bad one stops the start."""

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


async def test_a_bad_certificate_stops_the_start(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    certificate.write_text("nonsense")
    with pytest.raises(ConfigError, match="cannot be used"):
        async with serving(tls_certificate=certificate, tls_key=key):
            pass
    with pytest.raises(ConfigError, match="belong together"):
        async with serving(tls_certificate=certificate):
            pass
