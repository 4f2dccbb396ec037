"""TLS at the REST bridge and at the public gRPC API, of a platform that `headrace up` starts."""

import datetime
import ipaddress
import ssl
from pathlib import Path

import grpc
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.testing.running_platform import running_platform
from headrace.v1 import inference_pb2, inference_pb2_grpc

ADDRESS = "127.0.0.1"


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Writes a certificate for this machine that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(ADDRESS))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "tls.crt", folder / "tls.key"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return public, private


def test_both_apis_show_the_certificate_and_nothing_is_said_in_plain_text(tmp_path: Path) -> None:
    public, private = write_certificate(tmp_path)
    config = tmp_path / "headrace.toml"
    config.write_text(f'[gateway]\ntls_certificate = "{public}"\ntls_key = "{private}"\n')
    with running_platform(tmp_path / "state", ["--engine", "sim", "--config", str(config)]) as platform:
        assert platform.http.startswith("https://")
        trust = ssl.create_default_context(cafile=public)
        body = {"model": "headrace-demo", "prompt": [1, 2, 3], "max_tokens": 2}
        answer = httpx2.post(f"{platform.http}/v1/completions", json=body, timeout=30, verify=trust)
        assert answer.status_code == 200
        with pytest.raises(httpx2.TransportError):
            httpx2.get(platform.http.replace("https", "http"), timeout=10)
        with grpc.secure_channel(platform.grpc, grpc.ssl_channel_credentials(public.read_bytes())) as channel:
            request = inference_pb2.GenerateRequest(model="headrace-demo", text="Where?")
            assert inference_pb2_grpc.InferenceServiceStub(channel).Generate(request, timeout=30).result.text
