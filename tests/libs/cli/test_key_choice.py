"""A platform that other machines reach has keys, or was told that it needs none."""

from pathlib import Path

import pytest

from headrace.access.key_file import FILE_NAME, KeyFile
from headrace.cli.duration import parse_duration
from headrace.cli.key_choice import KeyChoice, Reach, choose_keys
from headrace.errors import ConfigError, InvalidRequest

KEYS_VARIABLE = "HEADRACE_GATEWAY_KEYS_FILE"

OUTSIDE = Reach("192.168.1.5")


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYS_VARIABLE, raising=False)


def test_without_keys_only_this_machine_comes_in(tmp_path: Path) -> None:
    assert choose_keys(Reach(), tmp_path, None) == KeyChoice(awaited=tmp_path / FILE_NAME)
    with pytest.raises(ConfigError, match=r"headrace keys create.*--without-keys"):
        choose_keys(OUTSIDE, tmp_path, None)
    assert choose_keys(Reach("0.0.0.0", without_keys=True), tmp_path, None) == KeyChoice()


def test_the_keys_of_the_state_folder_are_used(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    gone, _ = keys.create("gone")
    for reach in (Reach(), OUTSIDE):
        assert choose_keys(reach, tmp_path, None) == KeyChoice(keys.path, 1)
    keys.revoke(gone.key_id)
    assert choose_keys(Reach(), tmp_path, None) == KeyChoice(keys.path, 0)
    with pytest.raises(ConfigError, match="no API key"):
        choose_keys(OUTSIDE, tmp_path, None)
    assert choose_keys(Reach(without_keys=True), tmp_path, None) == KeyChoice()


@pytest.mark.parametrize("by", ["file", "environment"])
def test_the_keys_that_a_setting_names_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    KeyFile(tmp_path / "keys.json").create("unused")
    named = KeyFile(tmp_path / "elsewhere" / "named.json")
    for name in ("one", "two"):
        named.create(name)
    config = tmp_path / "platform.toml"
    config.write_text(f'[gateway]\nkeys_file = "{named.path}"\n' if by == "file" else "")
    if by == "environment":
        monkeypatch.setenv(KEYS_VARIABLE, str(named.path))
    assert choose_keys(OUTSIDE, tmp_path, config) == KeyChoice(named.path, 2)
    with pytest.raises(ConfigError, match="take one of them away"):
        choose_keys(Reach(without_keys=True), tmp_path, config)


def test_times_have_a_unit() -> None:
    assert [parse_duration(text, "x") for text in ("90s", "15m", "1h", "30d")] == [90, 900, 3600, 2_592_000]
    for text in ("", "30", "0s", "-1h", "1.5h", "1w", "h"):
        with pytest.raises(InvalidRequest, match="--expires"):
            parse_duration(text, "expires")
