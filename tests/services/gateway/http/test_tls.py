"""TLS at the REST bridge: it answers whoever trusts its certificate, and a bad one stops the start."""

import datetime
import ipaddress
import ssl
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.services.gateway.served_bridge import serving

from headrace.errors import ConfigError

pytestmark = pytest.mark.anyio


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Writes a certificate of 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "tls.crt", folder / "tls.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


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
