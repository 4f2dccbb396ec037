"""A misspelt setting is answered with the one that was meant."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.errors.near_names import hint
from headrace.settings.settings import Settings, load


class Speeds(Settings):
    """Settings of a test."""

    max_running_count: int = 1
    strict: bool = False


def test_only_what_is_near_is_meant() -> None:
    assert hint("stric", ["strict", "other"], "[{}]") == ": did you mean [strict]?"
    assert hint("zork", ["strict", "other"]) == ""


def test_a_setting_is_found_wherever_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("[worker]\nmax_runing_count = 3\n")
    arguments = ["--config", str(file)]
    with pytest.raises(ConfigError, match=r"worker\.max_runing_count in .*did you mean worker\.max_running_count\?"):
        load(Speeds, "worker", arguments, {})
    with pytest.raises(ConfigError, match=r"WORKER_STRCT: did you mean HEADRACE_WORKER_STRICT\?"):
        load(Speeds, "worker", [], {"HEADRACE_WORKER_STRCT": "1"})
    file.write_text("[workr]\n")
    with pytest.raises(ConfigError, match=r"\[workr\] in .*did you mean \[worker\]\?"):
        load(Speeds, "worker", arguments, {})
