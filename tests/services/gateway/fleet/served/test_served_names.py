"""A name stands for the model that the file says, as soon as it says so, and a broken file changes nothing."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.gateway.fleet.served.served_names import ServedNames
from headrace.served.loaded_source import LoadedSource
from headrace.served.served_file import FILE_NAME, ServedFile


def test_names_of_the_file_go_before_those_of_the_settings(tmp_path: Path) -> None:
    file = ServedFile(tmp_path / FILE_NAME)
    names = ServedNames({"gpt-4o": "small", "claude": "small"}, file.path)
    assert [names.resolve(name) for name in ("gpt-4o", "claude", "small")] == ["small"] * 3
    file.change(lambda served: served.naming("gpt-4o", "large"))
    names.refresh()
    assert [names.resolve(name) for name in ("gpt-4o", "claude", "small")] == ["large", "small", "small"]
    assert names.aliases == {"gpt-4o": "large", "claude": "small"}
    file.change(lambda served: served.dropping("gpt-4o"))
    names.refresh()
    assert names.resolve("gpt-4o") == "small"


def test_an_unloaded_source_is_one_until_it_is_loaded(tmp_path: Path) -> None:
    file = ServedFile(tmp_path / FILE_NAME)
    names = ServedNames(None, file.path)
    file.change(lambda served: served.unloading("small"))
    names.refresh()
    assert not names.unloaded
    file.change(lambda served: served.parted())
    names.refresh()
    assert names.unloaded == {"small"}
    file.change(lambda served: served.loading("small", LoadedSource(source="small")))
    names.refresh()
    assert not names.unloaded


def test_a_broken_file_changes_nothing_and_is_an_error_at_the_start(tmp_path: Path) -> None:
    file = ServedFile(tmp_path / FILE_NAME)
    file.change(lambda served: served.naming("gpt-4o", "large"))
    names = ServedNames(None, file.path)
    file.path.write_text("{")
    names.refresh()
    assert names.resolve("gpt-4o") == "large"
    with pytest.raises(ConfigError):
        ServedNames(None, file.path)
