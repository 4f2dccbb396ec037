"""This machine is asked directly, whatever the environment says of proxies; certificates are trusted as told."""

import ssl
from pathlib import Path

import httpx2
import pytest

from headrace.errors import ConfigError
from headrace.settings.web.connection_options import AUTHORITY_VARIABLE, connection_options, is_untrusted


@pytest.fixture(autouse=True)
def _no_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AUTHORITY_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("address", "asks_proxies"),
    [
        ("http://127.0.0.1:8000", False),
        ("http://LOCALHOST:8000/v1", False),
        ("http://[::1]:8000", False),
        ("https://127.0.0.1:8000", False),
        ("http://models.example", True),
        ("http://10.0.0.1:8000", True),
    ],
)
def test_only_other_machines_are_asked_through_a_proxy(address: str, asks_proxies: bool) -> None:
    assert connection_options(address)["trust_env"] is asks_proxies


def test_a_proxy_that_is_not_there_harms_no_request_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with httpx2.Client(**connection_options("http://127.0.0.1:1")) as client, pytest.raises(httpx2.ConnectError):
        client.get("http://127.0.0.1:1/ready")


def test_an_authority_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AUTHORITY_VARIABLE, str(tmp_path / "absent.pem"))
    with pytest.raises(ConfigError, match=r"absent\.pem"):
        connection_options("https://127.0.0.1:1")
    assert connection_options("http://127.0.0.1:1")["verify"] is True


def test_a_certificate_that_nobody_vouches_for_is_told_from_other_failures() -> None:
    error = httpx2.ConnectError("failed")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed certificate")
    assert is_untrusted(error)
    assert not is_untrusted(httpx2.ConnectError("refused"))
