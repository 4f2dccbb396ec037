"""Answers are on the disk before they count, once each, whatever was torn."""

import asyncio
import json
from pathlib import Path

import pytest

from headrace.gateway.batches.lines.line_answer import answered
from headrace.gateway.batches.lines.result_log import ResultLog, last_fence, opened_log, read_results

pytestmark = pytest.mark.anyio


async def add(log: ResultLog, name: str, status: int = 200) -> None:
    await log.add(answered("batch_x", name, status, b"{}"))


def names(folder: Path) -> list[str]:
    return [result.custom_id for result in read_results(folder)]


async def test_all_that_come_together_are_written(tmp_path: Path) -> None:
    with opened_log(tmp_path, 1) as log:
        await asyncio.gather(*(add(log, str(number)) for number in range(50)))
        assert sorted(names(tmp_path), key=int) == [str(number) for number in range(50)]


async def test_an_answer_counts_once_and_a_torn_line_not_at_all(tmp_path: Path) -> None:
    with opened_log(tmp_path, 1) as first, opened_log(tmp_path, 2) as second:
        await add(first, "a", 400)
        await add(second, "a")
        await add(second, "b")
    with (tmp_path / "results-000000000001.jsonl").open("ab") as file:
        file.write(json.dumps(answered("x", "c", 200, b"{}") | {"response": None}).encode()[:-4])
    assert [(result.custom_id, result.is_completed) for result in read_results(tmp_path)] == [("a", False), ("b", True)]
    assert last_fence(tmp_path) == 2


def test_two_gateways_never_write_one_file(tmp_path: Path) -> None:
    with opened_log(tmp_path, 1), pytest.raises(FileExistsError), opened_log(tmp_path, 1):
        pass


async def test_after_a_failure_nothing_more_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_file: object) -> None:
        raise OSError("the disk is full")

    with opened_log(tmp_path, 1) as log:
        with monkeypatch.context() as patch:
            patch.setattr("headrace.gateway.batches.lines.result_log.sync", fail)
            with pytest.raises(OSError, match="full"):
                await add(log, "a")
        with pytest.raises(OSError, match="full"):
            await add(log, "b")
    assert "b" not in names(tmp_path)
