"""Responses are kept per tenant, for their time, within their bytes, across processes that are killed."""

import resource
import stat
from pathlib import Path
from types import SimpleNamespace

import lmdb
import pytest

from headrace import failpoints
from headrace.cache.response_store import ResponseStore
from headrace.errors import StorageFull

MEGABYTE = 1024 * 1024


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_tenants_are_apart_and_age_counts(tmp_path: Path) -> None:
    clock = Clock()
    store = ResponseStore(tmp_path, 4 * MEGABYTE, clock)
    assert store.put("a", b"key", b"value", 10)
    assert store.get("a", b"key") == b"value"
    assert store.get("b", b"key") is None
    clock.now += 11
    assert store.get("a", b"key") is None
    store.close()


def test_a_new_value_replaces_the_old(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, 4 * MEGABYTE)
    store.put("a", b"key", b"one", 10)
    store.put("a", b"key", b"two", 10)
    assert store.get("a", b"key") == b"two"
    assert len(store) == 1
    store.close()


def test_what_is_replaced_may_remain_only_where_no_other_user_reads(tmp_path: Path, root: Path) -> None:
    """A response is deleted by another value in its place. Its text may stay in pages of the file that nothing names,
    as the guide says."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o755)
    store = ResponseStore(folder, 4 * MEGABYTE)
    store.put("a", b"key", b"a secret" * 1000, 10)
    store.put("a", b"key", b"null", 10)
    assert store.get("a", b"key") == b"null"
    store.close()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"cache": 0o700, "data.mdb": 0o600, "lock.mdb": 0o600}
    guide = " ".join((root / "docs" / "guide" / "api.md").read_text().split())
    assert "its text may remain in the cache's file, which only the platform's user can read" in guide


def test_the_oldest_make_room(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, 2 * MEGABYTE)
    for index in range(300):
        assert store.put("a", str(index).encode(), bytes(20_000), 1000)
    assert 20 < len(store) < 120
    assert store.get("a", b"299") is not None
    assert store.get("a", b"0") is None
    store.close()


def test_one_response_may_not_push_out_all_others(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, 2 * MEGABYTE)
    assert not store.put("a", b"large", bytes(MEGABYTE), 1000)
    store.close()


def test_it_is_there_after_a_restart(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path, 2 * MEGABYTE)
    store.put("a", b"key", b"value", 1000)
    store.close()
    again = ResponseStore(tmp_path, 2 * MEGABYTE)
    assert again.get("a", b"key") == b"value"
    again.close()


def test_failpoints_damage_values_and_fill_the_disk(tmp_path: Path) -> None:
    """A failpoint damages the value that comes back, not the one that is kept."""
    store = ResponseStore(tmp_path / "store", 4 * MEGABYTE)
    store.put("a", b"key", b"value", 10)
    failpoints.arm(tmp_path)
    try:
        (tmp_path / "cache.value").write_text("once damage")
        assert store.get("a", b"key") != b"value"
        assert store.get("a", b"key") == b"value"
        (tmp_path / "cache.write").write_text("disk_full")
        with pytest.raises(StorageFull):
            store.put("a", b"key", b"other", 10)
    finally:
        failpoints.arm(None)
    assert store.get("a", b"key") == b"value"
    store.close()


@pytest.mark.parametrize(("free", "error"), [(0, StorageFull), (2**30, lmdb.Error)])
def test_a_write_that_fits_in_part_is_told_from_a_broken_disk(
    free: int, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResponseStore(tmp_path, 4 * MEGABYTE)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEGABYTE // 16 + 100, before[1]))
    try:
        with pytest.raises(error, match="full" if error is StorageFull else "mdb_txn_commit"):
            store.put("a", b"key", bytes(MEGABYTE // 8), 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.put("a", b"key", b"value", 1000)
    assert store.get("a", b"key") == b"value"
    store.close()


def test_a_database_that_does_not_open_is_moved_aside(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "data.mdb").write_bytes(b"no database" * 1000)
    store = ResponseStore(folder, 4 * MEGABYTE)
    assert store.put("a", b"key", b"value", 10)
    assert store.get("a", b"key") == b"value"
    store.close()
    aside = [path for path in tmp_path.iterdir() if path.name.startswith("cache.broken-")]
    assert [(path / "data.mdb").read_bytes()[:11] for path in aside] == [b"no database"]
