"""Flags over environment over file over defaults; whatever is unknown or bad is named."""

from pathlib import Path

import pytest
from pydantic import Field

from headrace.errors import ConfigError
from headrace.settings import Settings, load


class Demo(Settings):
    """Settings of a demonstration."""

    http_port: int = Field(default=8000, ge=0, le=65535)
    """The port."""
    strict: bool = False
    """Whether to be strict."""


def test_precedence(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("[gateway]\nhttp_port = 1\nstrict = true\n")
    arguments = ["--config", str(file)]
    assert load(Demo, "gateway", [], {}).http_port == 8000
    assert load(Demo, "gateway", arguments, {}).http_port == 1
    environment = {"HEADRACE_GATEWAY_HTTP_PORT": "2"}
    assert load(Demo, "gateway", arguments, environment).http_port == 2
    assert load(Demo, "gateway", [*arguments, "--http-port", "3"], environment).http_port == 3
    assert load(Demo, "gateway", arguments, {}).strict
    assert not load(Demo, "gateway", [*arguments, "--no-strict"], {}).strict


@pytest.mark.parametrize(
    ("argv", "environment", "text", "named"),
    [
        (["--http-port", "x"], {}, "", "http_port"),
        (["--http-port", "70000"], {}, "", "http_port"),
        (["--zork", "1"], {}, "", "--zork"),
        ([], {"HEADRACE_GATEWAY_ZORK": "1"}, "", "HEADRACE_GATEWAY_ZORK"),
        ([], {"HEADRACE_GATEWAY_HTTP_PORT": "high"}, "", "http_port"),
        ([], {}, "[gateway]\nzork = 1", "gateway.zork"),
        ([], {}, "[zork]\na = 1", "[zork]"),
        ([], {}, "[gateway", "TOML"),
        ([], {}, "[gateway]\nhttp_port = 'x'", "http_port"),
    ],
)
def test_unknown_and_bad_settings_are_named(
    tmp_path: Path, argv: list[str], environment: dict[str, str], text: str, named: str
) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as failure:
        load(Demo, "gateway", ["--config", str(file), *argv], environment)
    assert named in failure.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        load(Demo, "gateway", ["--config", str(tmp_path / "none.toml")], {})


def test_settings_cannot_be_changed() -> None:
    settings = load(Demo, "gateway", [], {})
    with pytest.raises(ValueError, match="frozen"):
        settings.http_port = 1


def test_only_those_who_ask_for_help_have_the_source_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> dict[str, str]:
        raise OSError("there is no source")

    monkeypatch.setattr(Demo, "help_texts", refuse)
    assert load(Demo, "gateway", ["--http-port", "3"], {}).http_port == 3
    with pytest.raises(OSError, match="no source"):
        load(Demo, "gateway", ["--help"], {})


def test_the_help_has_the_docstrings_of_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load(Demo, "gateway", ["--help"], {})
    assert "The port. [default: 8000]" in capsys.readouterr().out
