"""Addresses of a platform come from flags, else from the environment and the configuration file, else as usual."""

from pathlib import Path

import pytest

from headrace.cli.reach.public_addresses import PublicAddresses, public_addresses
from headrace.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_ADDRESS", "LISTEN_ADDRESS"):
        monkeypatch.delenv(f"HEADRACE_GATEWAY_{name}", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "headrace.toml"
    path.write_text('[gateway]\nhttp_address = "0.0.0.0:18113"\nlisten_address = "0.0.0.0:18114"\n')
    return path


def test_without_settings_they_are_as_usual() -> None:
    assert public_addresses(None, None, None, None) == PublicAddresses("127.0.0.1", 8000, 9000)


def test_the_file_goes_before_what_is_usual(config: Path) -> None:
    assert public_addresses(None, None, None, config) == PublicAddresses("0.0.0.0", 18113, 18114)


def test_the_environment_goes_before_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_GATEWAY_HTTP_ADDRESS", "0.0.0.0:1234")
    assert public_addresses(None, None, None, config).http_port == 1234


def test_flags_go_before_all(config: Path) -> None:
    assert public_addresses("127.0.0.1", 0, 5, config) == PublicAddresses("127.0.0.1", 0, 5)


@pytest.mark.parametrize("address", ["8000", "host", "host:", ":80x"])
def test_an_address_that_is_none_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_GATEWAY_HTTP_ADDRESS", address)
    with pytest.raises(ConfigError, match="HOST:PORT"):
        public_addresses(None, None, None, None)


def test_two_hosts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_GATEWAY_HTTP_ADDRESS", "0.0.0.0:1")
    monkeypatch.setenv("HEADRACE_GATEWAY_LISTEN_ADDRESS", "127.0.0.1:2")
    with pytest.raises(ConfigError, match="both on one"):
        public_addresses(None, None, None, None)
