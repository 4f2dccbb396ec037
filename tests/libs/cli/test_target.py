"""A command trusts the authority that it is given, else that of the environment, else the platform's own, and asks
the model that it is given, else the first that can chat."""

import os
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headrace.cli import target
from headrace.cli.target import choose_model, platform_url, trust
from headrace.errors import ConfigError, ModelNotFound, Unavailable
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


def serve(monkeypatch: pytest.MonkeyPatch, **models: bool) -> None:
    """Has a platform answer that serves models, of which some can chat."""
    entries = [{"id": name, "can_chat": can_chat} for name, can_chat in models.items()]

    def answer(url: str, *_: Any, **__: Any) -> httpx2.Response:
        assert url == "http://a/v1/models"
        return httpx2.Response(200, json={"data": entries})

    monkeypatch.setattr(target, "get", answer)


def test_the_first_model_that_can_chat_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, base=False, chat=True, other=True)
    assert choose_model("http://a", None) == "chat"
    assert choose_model("http://a", "base") == "base"
    with pytest.raises(ModelNotFound, match="it serves: base, chat, other"):
        choose_model("http://a", "absent")


def test_a_model_that_cannot_chat_is_chosen_where_none_can(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, base=False, encoder=False)
    assert choose_model("http://a", None) == "base"
    serve(monkeypatch)
    with pytest.raises(Unavailable, match="serves no model yet"):
        choose_model("http://a", None)
