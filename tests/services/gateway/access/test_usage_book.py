"""Records of usage are whole lines, whatever cut the last one, and sums count each once."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from headrace.access.usage_record import UsageRecord, from_line, to_line
from headrace.access.usage_report import day_of, read_usage, summed
from headrace.errors import ConfigError, HeadraceError, Overloaded, RequestCancelled
from headrace.gateway.access.account import Account
from headrace.gateway.access.usage_book import USAGE_LOST, UsageBook


def record(name: str, **fields: Any) -> UsageRecord:
    usual: dict[str, Any] = {"time": 1e9, "request_id": name, "key": "k", "tenant": "t", "model": "m"}
    usual |= {"prompt_tokens": 3, "cached_tokens": 1, "output_tokens": 2, "outcome": "finished", "seconds": 0.1}
    usual |= {"cost": 0.00001}
    return UsageRecord(**usual | fields)


def test_a_record_is_one_line() -> None:
    strange = record("a\nb\r\n", tenant="ü\x00")
    line = to_line(strange)
    assert line.count(b"\n") == 1
    assert from_line(line) == strange
    assert from_line(line[:-1]) is from_line(line[5:]) is from_line(b"\n") is None


def test_a_line_that_was_cut_is_passed_over_and_spoils_no_other(tmp_path: Path) -> None:
    book = UsageBook(tmp_path / "usage", "gateway")
    book.append(record("first"))
    book.close()
    (path,) = (tmp_path / "usage").iterdir()
    with path.open("ab") as file:
        file.write(to_line(record("cut"))[:40])
    book = UsageBook(tmp_path / "usage", "gateway")
    for name in ("second", "third"):
        book.append(record(name))
    book.close()
    assert [one.request_id for one in read_usage(tmp_path / "usage")] == ["first", "second", "third"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_each_gateway_and_day_has_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_795_000_000.0
    monkeypatch.setattr("headrace.gateway.access.usage_book.time.time", lambda: now)
    for service in ("gateway", "../gateway-1"):
        book = UsageBook(tmp_path, service)
        now = 1_795_000_000.0
        book.append(record("a", time=now))
        now += 86400
        book.append(record("b", time=now))
        book.close()
    first = day_of(1_795_000_000.0)
    assert len(list(tmp_path.iterdir())) == 4
    assert [one.request_id for one in read_usage(tmp_path, until=first)] == ["a", "a"]
    assert [one.request_id for one in read_usage(tmp_path, since=day_of(now))] == ["b", "b"]


def test_a_full_disk_costs_records_and_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = UsageBook(tmp_path, "gateway")
    before = USAGE_LOST._value.get()

    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(28, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        book.append(record("lost"))
    book.append(record("kept"))
    book.close()
    assert USAGE_LOST._value.get() == before + 1
    assert [one.request_id for one in read_usage(tmp_path)] == ["kept"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="records of usage"):
        UsageBook(tmp_path / "file" / "usage", "gateway")


def test_sums_are_by_group() -> None:
    records = [record("a"), record("b", tenant="u", outcome="overloaded"), record("c", tenant="u")]
    by_tenant = {one.group: one.as_dict("tenant") for one in summed(records, "tenant")}
    assert by_tenant["u"] == {
        "tenant": "u",
        "requests": 2,
        "finished": 1,
        "prompt_tokens": 6,
        "cached_tokens": 2,
        "cached_tokens_from": {},
        "output_tokens": 4,
        "cost": 0.00002,
        "cost_per_million_tokens": 2.0,
    }
    assert [one.group for one in summed(records, "day")] == ["2001-09-09"]
    with pytest.raises(HeadraceError, match="key, model, tenant, day"):
        summed(records, "colour")


@pytest.mark.anyio
async def test_cached_tokens_are_summed_by_the_place_that_had_them(tmp_path: Path) -> None:
    book = UsageBook(tmp_path, "gateway")
    for places in ({"memory": 32, "disk": 0, "store": 16}, {"memory": 0, "store": 48}, {}):
        account = Account(blank=record("a"), book=book)
        with account.settled():
            await account.reserve(100, 1)
            account.finish(sum(places.values()), places)
    book.close()
    written = [one.cached_tokens_from for one in read_usage(tmp_path)]
    assert written == [{"memory": 32, "store": 16}, {"store": 48}, UNSET]
    (whole,) = summed(read_usage(tmp_path), "tenant")
    assert (whole.cached_tokens, whole.cached_tokens_from) == (96, {"memory": 32, "store": 64})


def test_a_record_of_before_prices_were_known_is_free() -> None:
    line = to_line(record("a")).replace(b',"cost":0.00001', b"").replace(b',"cost":1e-5', b"")
    assert b"cost" not in line
    read = from_line(line)
    assert read is not None
    assert read.cost == 0.0


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "outcome"), [(Overloaded(), "overloaded"), (RequestCancelled(), "request_cancelled"), (None, "finished")]
)
async def test_a_request_is_recorded_once_however_it_ends(
    tmp_path: Path, error: HeadraceError | None, outcome: str
) -> None:
    book = UsageBook(tmp_path, "gateway")
    account = Account(blank=record("a"), book=book)
    with contextlib.suppress(HeadraceError), account.settled():
        await account.reserve(5, 10)
        account.add(2)
        account.add_cost(0.25)
        account.add_cost(0.5)
        if error is not None:
            raise error
        account.finish(cached_count=4)
    (written,) = read_usage(tmp_path)
    cached = 0 if error else 4
    assert (written.outcome, written.prompt_tokens, written.output_tokens, written.cost) == (outcome, 5, 2, 0.75)
    assert written.cached_tokens == cached
    book.close()


@pytest.mark.anyio
@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_request_that_got_nothing_is_not_recorded(tmp_path: Path, has_begun: bool) -> None:
    book = UsageBook(tmp_path, "gateway")
    account = Account(blank=record("a"), book=book)
    if has_begun:
        await account.reserve(5, 10)
    with pytest.raises(Overloaded), account.settled():
        raise Overloaded
    assert list(read_usage(tmp_path)) == []
