"""A command trusts the authority that it is given, else that of the environment, else the platform's own."""

import os
from pathlib import Path

import pytest

from headrace.cli.target import platform_url, trust
from headrace.errors import ConfigError
from headrace.settings.web.connection_options import AUTHORITY_VARIABLE
from headrace.supervisor.state import StateFolder


@pytest.fixture(autouse=True)
def _no_authority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets it first, so that what a test leaves is taken back."""
    monkeypatch.setenv(AUTHORITY_VARIABLE, "")
    monkeypatch.delenv(AUTHORITY_VARIABLE)


def test_the_given_authority_goes_before_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given.pem"
    given.touch()
    monkeypatch.setenv(AUTHORITY_VARIABLE, "/environment.pem")
    trust(None, {"authority": "/platform.pem"})
    assert os.environ[AUTHORITY_VARIABLE] == "/environment.pem"
    trust(given, {"authority": "/platform.pem"})
    assert os.environ[AUTHORITY_VARIABLE] == str(given)


def test_a_platform_of_this_machine_is_trusted(tmp_path: Path) -> None:
    with StateFolder(tmp_path) as state:
        state.write({"http": "https://127.0.0.1:8000", "authority": "/platform.pem"})
        assert platform_url("", tmp_path) == "https://127.0.0.1:8000"
    assert os.environ[AUTHORITY_VARIABLE] == "/platform.pem"


def test_an_authority_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*none\.pem"):
        platform_url("https://a", tmp_path, tmp_path / "none.pem")
