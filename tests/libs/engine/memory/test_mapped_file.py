"""Advice about a mapped file changes nothing that is read, even where the system refuses it."""

from pathlib import Path

import pytest
from tests.libs.engine.memory.refused_advice import refuse_advice

from headrace.engine.memory.mapped_file import MappedFile


def test_advice_that_is_refused_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_advice(monkeypatch)
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1024)
    with path.open("rb") as file:
        mapped = MappedFile(file)
    mapped.expect(mapped.bytes)
    mapped.forget(mapped.bytes)
    assert mapped.bytes.tobytes() == path.read_bytes()
