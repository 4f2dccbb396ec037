"""Files of tenants: whole or not at all, apart from each other, and gone when they expire."""

import os
import time
from pathlib import Path

import pytest

from headrace.errors import NotFound, PayloadTooLarge
from headrace.gateway.batches.storage.file_store import LEFT_SECONDS, FileStore
from headrace.gateway.batches.storage.stored_file import StoredFile
from headrace.gateway.batches.storage.tenant_folder import digest_of
from headrace.gateway.batches.storage.timed_id import FILE, new_id


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path, 1000, 60)


def add(store: FileStore, tenant: str = "t", content: bytes = b"x", seconds: int = 60) -> StoredFile:
    now = int(time.time())
    file = StoredFile(
        id=new_id(FILE),
        filename="a",
        purpose="batch",
        byte_count=len(content),
        created=now,
        expires=now + seconds,
    )
    with store.content(tenant, file.id) as opened:
        opened.write(content)
    store.add(tenant, file)
    return file


def all_paths(store: FileStore) -> list[Path]:
    return [path for path in store.root.rglob("*") if path.is_file()]


def test_a_file_is_found_by_its_tenant_alone(store: FileStore) -> None:
    file = add(store)
    assert store.get("t", file.id) == file
    assert store.content_path("t", file.id).read_bytes() == b"x"
    for tenant, file_id in (("other", file.id), ("t", "../t"), ("t", f"{file.id}/"), ("t", "")):
        with pytest.raises(NotFound):
            store.get(tenant, file_id)


def test_files_are_listed_by_age_and_behind_one(store: FileStore) -> None:
    ids = []
    for _ in range(3):
        ids.append(add(store).id)
        while new_id(FILE)[:17] == ids[-1][:17]:
            pass
    assert [file.id for file in store.newest("t")] == ids[::-1]
    assert [file.id for file in store.newest("t", ids[1])] == [ids[0]]
    assert [file.id for file in store.newest("t", ids[1], is_reversed=True)] == [ids[2]]
    assert list(store.newest("other")) == []


def test_an_upload_that_fails_leaves_nothing(store: FileStore) -> None:
    def upload() -> None:
        with store.content("t", new_id(FILE)) as opened:
            opened.write(b"half")
            raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        upload()
    assert all_paths(store) == []


def test_what_has_expired_is_gone_and_then_removed(store: FileStore) -> None:
    file, kept = add(store, seconds=0), add(store)
    with pytest.raises(NotFound):
        store.get("t", file.id)
    store.remove_expired()
    assert {path.stem for path in all_paths(store)} == {kept.id}


def test_what_an_ended_gateway_left_is_removed_later(store: FileStore) -> None:
    kept = add(store)
    with store.content("t", new_id(FILE)) as opened:
        opened.write(b"nobody added it")
    store.remove_expired()
    assert len(all_paths(store)) == 3
    for path in all_paths(store):
        os.utime(path, (0, time.time() - LEFT_SECONDS - 1))
    store.remove_expired()
    assert {path.stem for path in all_paths(store)} == {kept.id}


def test_a_tenant_has_so_much_room(store: FileStore) -> None:
    assert store.remaining("t") == 1000
    add(store, content=b"x" * 900)
    with pytest.raises(PayloadTooLarge):
        store.remaining("t")
    assert store.remaining("other") == 1000


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]"])
def test_damaged_facts_are_passed_over_and_removed_once_old(store: FileStore, content: bytes) -> None:
    broken, whole = add(store), add(store)
    facts = store.content_path("t", broken.id).with_suffix(".json")
    facts.write_bytes(content)
    assert [file.id for file in store.newest("t")] == [whole.id]
    with pytest.raises(NotFound):
        store.get("t", broken.id)
    store.remove_expired()
    assert facts.exists()
    os.utime(facts, (0, 0))
    store.remove_expired()
    assert not facts.exists()
    assert store.get("t", whole.id) == whole


def test_inputs_and_answers_of_batches_count(store: FileStore) -> None:
    file = add(store, content=b"x" * 400)
    left = store.remaining("t")
    folder = store.root / "tenants" / digest_of("t") / "batches" / "b"
    folder.mkdir(parents=True)
    os.link(store.content_path("t", file.id), folder / "input.jsonl")
    assert store.remaining("t") == left
    store.delete("t", file.id)
    assert store.remaining("t") <= 600
    (folder / "results-1.jsonl").write_bytes(b"x" * 700)
    with pytest.raises(PayloadTooLarge, match="open batches"):
        store.remaining("t")
    assert store.remaining("other") == 1000
