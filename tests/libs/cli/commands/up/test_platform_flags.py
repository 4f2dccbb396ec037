"""Addresses of the platform that flags start: those of the settings, which flags go before."""

from pathlib import Path

import pytest

from headrace.access.key_file import FILE_NAME, KeyFile
from headrace.cli.commands.up.platform_flags import PlatformFlags
from headrace.cli.key_choice import Reach
from headrace.errors import ConfigError
from headrace.supervisor.options import PlatformOptions


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_ADDRESS", "LISTEN_ADDRESS", "KEYS_FILE", "TLS_CERTIFICATE"):
        monkeypatch.delenv(f"HEADRACE_GATEWAY_{name}", raising=False)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "headrace.toml"
    path.write_text('[gateway]\nhttp_address = "0.0.0.0:18113"\nlisten_address = "0.0.0.0:18114"\n')
    return path


def started(flags: PlatformFlags) -> PlatformOptions:
    flags.check()
    return flags.options([], flags.keys())


def test_a_platform_is_reached_where_its_settings_say(config: Path, tmp_path: Path) -> None:
    flags = PlatformFlags(config=config, state_dir=tmp_path)
    with pytest.raises(ConfigError, match=r"other machines can reach 0\.0\.0\.0"):
        flags.keys()
    KeyFile(tmp_path / FILE_NAME).create("someone")
    options = started(flags)
    assert (options.host, options.http_port, options.grpc_port) == ("0.0.0.0", 18113, 18114)


def test_the_environment_goes_before_the_file(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_GATEWAY_HTTP_ADDRESS", "127.0.0.1:1234")
    monkeypatch.setenv("HEADRACE_GATEWAY_LISTEN_ADDRESS", "127.0.0.1:1235")
    options = started(PlatformFlags(config=config, state_dir=tmp_path))
    assert (options.host, options.http_port, options.grpc_port) == ("127.0.0.1", 1234, 1235)


def test_flags_go_before_settings(config: Path, tmp_path: Path) -> None:
    flags = PlatformFlags(http_port=5, reach=Reach("127.0.0.1"), config=config, state_dir=tmp_path)
    options = started(flags)
    assert (options.host, options.http_port, options.grpc_port) == ("127.0.0.1", 5, 18114)
