"""Batches on disk: none forgotten, none changed by who has lost it."""

import time
from pathlib import Path

import pytest

from headrace.errors import InvalidRequest, NotFound, RateLimited
from headrace.gateway.batches.storage import batch_store as module
from headrace.gateway.batches.storage.batch_record import BatchRecord, BatchStatus
from headrace.gateway.batches.storage.batch_store import INPUT, RECORD, BatchStore, LeaseLost
from headrace.gateway.batches.storage.timed_id import BATCH, new_id


@pytest.fixture
def store(tmp_path: Path) -> BatchStore:
    return BatchStore(tmp_path / "files")


def create(store: BatchStore, tmp_path: Path, tenant: str = "t") -> BatchRecord:
    content = tmp_path / "input"
    content.write_text("lines")
    now = int(time.time())
    record = BatchRecord(
        id=new_id(BATCH),
        tenant=tenant,
        key=None,
        endpoint="/v1/completions",
        input_file_id="file-x",
        completion_window="24h",
        created=now,
        expires=now + 60,
    )
    store.create(record, content)
    content.unlink()
    return record


def close(store: BatchStore, record: BatchRecord) -> None:
    record.status = BatchStatus.COMPLETED
    store.close(record)


def test_a_batch_is_open_until_it_is_closed_and_has_its_input_until_then(store: BatchStore, tmp_path: Path) -> None:
    record = create(store, tmp_path)
    folder = store.folder("t", record.id)
    assert [found.id for found in store.open_batches()] == [record.id]
    assert (folder / INPUT).read_text() == "lines"
    close(store, record)
    assert store.open_batches() == []
    assert [path.name for path in folder.iterdir()] == [RECORD]
    assert store.get("t", record.id).status == "completed"


def test_one_that_was_never_made_whole_is_not_run(store: BatchStore, tmp_path: Path) -> None:
    record = create(store, tmp_path)
    (store.folder("t", record.id) / RECORD).unlink()
    assert store.open_batches() == []
    with pytest.raises(NotFound):
        store.get("t", record.id)


def test_a_mark_cancels_without_touching_the_record(store: BatchStore, tmp_path: Path) -> None:
    record = create(store, tmp_path)
    assert store.cancel("t", record.id).status == store.cancel("t", record.id).status == "cancelling"
    assert store.cancelled_at(record) is not None
    close(store, record)
    with pytest.raises(InvalidRequest):
        store.cancel("t", record.id)


def test_who_has_lost_a_batch_changes_nothing(store: BatchStore, tmp_path: Path) -> None:
    record = create(store, tmp_path)
    record.fence = 2
    close(store, record)
    record.fence, record.status = 1, BatchStatus.IN_PROGRESS
    with pytest.raises(LeaseLost):
        store.put(record)
    assert store.get("t", record.id).status == "completed"


def test_a_tenant_has_so_many_open_ones(store: BatchStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OPEN", 2)
    first, _ = (create(store, tmp_path) for _ in range(2))
    with pytest.raises(RateLimited):
        create(store, tmp_path)
    create(store, tmp_path, "other")
    close(store, first)
    create(store, tmp_path)


def test_old_ones_that_have_ended_are_removed(store: BatchStore, tmp_path: Path) -> None:
    ended, running = create(store, tmp_path), create(store, tmp_path)
    close(store, ended)
    store.remove_older(60)
    assert len(list(store.newest("t"))) == 2
    store.remove_older(-60)
    assert [record.id for record in store.newest("t")] == [running.id]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"id": 3}'])
def test_a_damaged_record_is_passed_over_and_told_once(
    store: BatchStore, tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    broken, whole = create(store, tmp_path), create(store, tmp_path)
    path = store.folder("t", broken.id) / RECORD
    path.write_bytes(content)
    for _ in range(3):
        assert [record.id for record in store.newest("t")] == [whole.id]
        assert [record.id for record in store.open_batches()] == [whole.id]
        with pytest.raises(NotFound):
            store.get("t", broken.id)
    assert [record.message for record in caplog.records] == ["a record is damaged and passed over"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"another tenant", b""])
def test_a_damaged_mark_stops_no_other_batch(store: BatchStore, tmp_path: Path, content: bytes) -> None:
    broken, whole = create(store, tmp_path), create(store, tmp_path)
    store._mark(broken).write_bytes(content)
    (store._open / "folder.x").mkdir()
    assert [record.id for record in store.open_batches()] == [whole.id]


def test_a_mark_of_cancelling_without_its_time_counts(store: BatchStore, tmp_path: Path) -> None:
    record = create(store, tmp_path)
    (store.folder("t", record.id) / module.CANCEL).write_bytes(b"")
    assert store.get("t", record.id).status == "cancelling"


def test_damaged_records_are_removed_once_they_are_old(store: BatchStore, tmp_path: Path) -> None:
    record = create(store, tmp_path)
    folder = store.folder("t", record.id)
    (folder / RECORD).write_bytes(b"{")
    store.remove_older(1000)
    assert folder.exists()
    store.remove_older(-10)
    assert not folder.exists()
