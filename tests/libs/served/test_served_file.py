"""Concurrent changes to the file of served models are never lost."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.served.loaded_source import LoadedSource
from headrace.served.served_file import FILE_NAME, ServedFile

MODEL = LoadedSource(source="/models/qwen")
COUNT = 20


def test_no_file_is_no_change(tmp_path: Path) -> None:
    served = ServedFile(tmp_path / FILE_NAME).read()
    assert (served.models, served.aliases, served.revision) == ({}, {}, 0)


def test_a_model_is_loaded_named_and_unloaded(tmp_path: Path) -> None:
    file = ServedFile(tmp_path / "state" / FILE_NAME)
    file.change(lambda served: served.loading("qwen", MODEL))
    file.change(lambda served: served.naming("gpt-4o", "qwen"))
    loaded = file.read()
    assert (dict(loaded.models), dict(loaded.aliases)) == ({"qwen": MODEL}, {"gpt-4o": "qwen"})
    leaving = file.change(lambda served: served.unloading("qwen"))
    assert (dict(leaving.models), leaving.leaving, leaving.unloaded) == ({"qwen": MODEL}, {"qwen"}, frozenset())
    gone = file.change(lambda served: served.parted())
    assert (dict(gone.models), dict(gone.aliases), gone.unloaded) == ({}, {}, {"qwen"})
    again = file.change(lambda served: served.loading("qwen", MODEL))
    assert (again.unloaded, again.revision) == (frozenset(), 4)


def test_a_name_is_dropped_and_its_model_stays(tmp_path: Path) -> None:
    file = ServedFile(tmp_path / FILE_NAME)
    file.change(lambda served: served.loading("qwen", MODEL).naming("a", "qwen").naming("b", "qwen").dropping("a"))
    assert dict(file.read().aliases) == {"b": "qwen"}
    assert dict(file.read().models) == {"qwen": MODEL}


def test_changes_at_the_same_time_are_all_made(tmp_path: Path) -> None:
    file = ServedFile(tmp_path / FILE_NAME)

    def name(number: int) -> None:
        ServedFile(file.path).change(lambda served: served.naming(f"alias-{number}", "qwen"))

    with ThreadPoolExecutor(COUNT) as pool:
        list(pool.map(name, range(COUNT)))
    assert len(file.read().aliases) == file.read().revision == COUNT


@pytest.mark.parametrize("content", ["{", '{"models": 3}', '{"unknown": 1}', "[]"])
def test_a_file_that_is_not_valid_says_so(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(ConfigError, match="cannot read the file of served models"):
        ServedFile(tmp_path / FILE_NAME).read()


def test_only_its_user_reads_it(tmp_path: Path) -> None:
    file = ServedFile(tmp_path / FILE_NAME)
    file.change(lambda served: served.naming("a", "b"))
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
