"""Addresses outlive the service that noted them, and a file that is not as it should be does no harm."""

import asyncio
from pathlib import Path

import pytest

from headrace.lifecycle import AddressBook, address_book

pytestmark = pytest.mark.anyio


async def keep_until(book: AddressBook, path: Path, content: str) -> None:
    keeping = asyncio.create_task(book.keep())
    try:
        async with asyncio.timeout(10):
            while not path.exists() or path.read_text() != content:  # noqa: ASYNC110, ASYNC240 - another task writes it
                await asyncio.sleep(0.005)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_the_next_life_reads_what_this_one_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_book, "WRITE_SECONDS", 0.01)
    path = tmp_path / "workers" / "gateway.json"
    book = AddressBook(path)
    for worker, address in (("a", "h:1"), ("b", "h:2"), ("c", ""), ("a", "h:3"), ("d", "h:4")):
        book.note(worker, address)
    book.forget("d")
    book.forget("unknown")
    await keep_until(book, path, '{"a": "h:3", "b": "h:2"}')
    assert AddressBook(path).read() == ["h:2", "h:3"]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", '{"a": 1}', "\x00\xff"])
async def test_a_file_that_says_nothing_useful_is_as_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gateway.json"
    assert AddressBook(path).read() == []
    path.write_text(content)
    assert AddressBook(path).read() == []


async def test_a_place_that_cannot_be_written_to_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address_book, "WRITE_SECONDS", 0.01)
    (tmp_path / "file").write_text("")
    book = AddressBook(tmp_path / "file" / "gateway.json")
    keeping = asyncio.create_task(book.keep())
    async with asyncio.timeout(10):
        for number in range(2):
            book.note("a", f"h:{number}")
            while sum("cannot write" in record.message for record in caplog.records) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_without_a_path_nothing_is_kept() -> None:
    book = AddressBook(None)
    book.note("a", "h:1")
    assert book.read() == []
