"""Packed weights are used only if every byte is what was written, for the model that asks, by this user; they are
bounded, and not removed under who uses them."""

import errno
import fcntl
import json
import logging
import os
import random
import stat
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.cpu.weights import packed_cache as fused_weights_cache
from headrace.engine.cpu.weights import packed_file as fused_weights_file
from headrace.engine.cpu.weights.packed_cache import PackedWeightsCache
from headrace.engine.cpu.weights.packed_reader import read_packed_weights
from headrace.engine.cpu.weights.packed_weights import PackedWeights, Table
from headrace.engine.kernels.library import VERSION
from headrace.engine.kernels.storage import Storage

pytestmark = needs_kernels
CONFIG = read_model_config(CHECKPOINT)
LIMIT = 1 << 30
REFUSED = "packed weights are made again"


@pytest.fixture(autouse=True)
def _small_models_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_weights_cache, "MIN_BYTES", 0)


@pytest.fixture(scope="module")
def weights() -> PackedWeights:
    return read_packed_weights(CHECKPOINT, CONFIG, WeightRounding(4), exact=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "packed"


@pytest.fixture
def path(folder: Path, weights: PackedWeights) -> Path:
    """Path of a file of packed weights that is in order."""
    file = folder / "model-1.packed"
    PackedWeightsCache(folder, LIMIT).save(file, weights)
    return file


def load(path: Path) -> PackedWeights | None:
    return PackedWeightsCache(path.parent, LIMIT).load(path, CONFIG)


def same(found: PackedWeights | None, weights: PackedWeights) -> bool:
    assert found is not None
    assert found.matrices.keys() == weights.matrices.keys()
    return (
        all((found.matrices[name].panels == weights.matrices[name].panels).all() for name in weights.matrices)
        and (found.embedding.numbers == weights.embedding.numbers).all()
    )


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(vars(record)["reason"]) for record in caplog.records if record.message == REFUSED]


def test_what_was_saved_is_loaded(path: Path, weights: PackedWeights) -> None:
    assert same(load(path), weights)


def positions(size: int, content_start: int) -> Iterator[int]:
    source = random.Random(20261122)
    yield from range(content_start)
    yield from range(size - 100, size)
    yield from (source.randrange(content_start, size) for _ in range(200))


def test_one_byte_that_is_flipped_anywhere_is_noticed(path: Path, weights: PackedWeights) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        for _ in range(3):
            file.readline()
        content_start = -(-file.tell() // 64) * 64
    number = os.open(path, os.O_RDWR)
    logging.disable(logging.WARNING)
    try:
        for position in positions(size, content_start):
            (byte,) = os.pread(number, 1, position)
            os.pwrite(number, bytes([byte ^ 1 << position % 8]), position)
            assert load(path) is None, position
            os.pwrite(number, bytes([byte]), position)
    finally:
        logging.disable(logging.NOTSET)
        os.close(number)
    assert same(load(path), weights)


def test_every_gap_between_arrays_is_checked_too(path: Path) -> None:
    """No byte of the file is without a checksum: the arrays and their gaps fill it."""
    with path.open("rb") as file:
        header, start = fused_weights_file._read_header(file)
    size = sum(
        -(-np.dtype(place["dtype"]).itemsize * int(np.prod(place["shape"])) // 64) * 64
        for place in header["arrays"].values()
    )
    assert start + size == path.stat().st_size


@pytest.mark.parametrize("kept", [0, 1, 25, 100, 5000, -4096, -1])
def test_a_file_that_was_cut_is_not_used(path: Path, kept: int, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(path.read_bytes()[:kept])
    path.chmod(0o600)
    assert load(path) is None
    assert len(reasons(caplog)) == 1


def test_a_file_that_grew_is_not_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with path.open("ab") as file:
        file.write(b"\0")
    assert load(path) is None
    assert "bytes, not" in reasons(caplog)[0]


def test_a_file_of_another_model_under_this_name_is_not_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = path.with_name("model-2.packed")
    path.rename(other)
    assert load(other) is None
    assert "its key is 'model-1', not 'model-2'" in reasons(caplog)[0]


def test_a_file_of_another_packed_layout_is_not_used(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fused_weights_file, "VERSION", VERSION + 1)
    assert load(path) is None
    assert "its version is" in reasons(caplog)[0]


def with_matrix(weights: PackedWeights, name: str, **changes: Any) -> PackedWeights:
    matrix = replace(weights.matrices[name], **changes)
    return replace(weights, matrices=weights.matrices | {name: matrix})


WRONG = {
    "panels": lambda w: with_matrix(w, "0.down", panels=w.matrices["0.down"].panels[:-64]),
    "outputs": lambda w: with_matrix(w, "0.qkv", out_size=w.matrices["0.qkv"].out_size + 16),
    "inputs": lambda w: with_matrix(w, "0.qkv", in_size=w.matrices["0.qkv"].in_size // 2),
    "group": lambda w: with_matrix(w, "0.qkv", group=7),
    "storage": lambda w: with_matrix(w, "0.qkv", storage=Storage.F32),
    "bias": lambda w: with_matrix(w, "0.output", bias=np.zeros(3, np.float32)),
    "order too large": lambda w: with_matrix(
        w, "0.down", order=np.full(w.matrices["0.down"].in_size, 1 << 20, np.int32)
    ),
    "order below zero": lambda w: with_matrix(w, "0.down", order=np.full(w.matrices["0.down"].in_size, -1, np.int32)),
    "a matrix is missing": lambda w: replace(w, matrices={n: m for n, m in w.matrices.items() if n != "1.down"}),
    "a norm is missing": lambda w: replace(w, vectors={n: v for n, v in w.vectors.items() if n != "model.norm"}),
    "a short norm": lambda w: replace(w, vectors=w.vectors | {"model.norm": np.ones(8, np.float32)}),
    "factors are missing": lambda w: replace(w, vectors={n: v for n, v in w.vectors.items() if n != "1.key_factors"}),
    "few factors": lambda w: replace(w, vectors=w.vectors | {"0.key_factors": w.vectors["0.key_factors"][:-1]}),
    "no powers of two": lambda w: replace(w, vectors=w.vectors | {"0.key_factors": w.vectors["0.key_factors"] * 3}),
    "a short table": lambda w: replace(w, embedding=Table(w.embedding.numbers[:-1], w.embedding.storage)),
    "a table of another type": lambda w: replace(w, embedding=Table(w.embedding.numbers, Storage.F32)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_weights_of_other_shapes_are_not_used_though_their_checksums_fit(
    path: Path, weights: PackedWeights, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    PackedWeightsCache(path.parent, LIMIT).save(path, WRONG[wrong](weights))
    assert load(path) is None
    assert len(reasons(caplog)) == 1


def rewrite(path: Path, change: Callable[[Any], object]) -> None:
    """Changes the header of a file, with the digest that fits."""
    with path.open("rb") as file:
        header, _ = fused_weights_file._read_header(file)
        content = file.read()
    change(header)
    line = json.dumps(header).encode() + b"\n"
    head = fused_weights_file.MAGIC + fused_weights_file._digest(line) + line
    path.write_bytes(head + b"\0" * (-len(head) % 64) + content)


@pytest.mark.parametrize("name", ["out_size", "in_size", "group", "storage"])
def test_sizes_that_are_no_integers_are_refused(path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """They equal the model's, but the kernels take no others."""
    rewrite(path, lambda header: header["matrices"]["0.qkv"].update({name: float(header["matrices"]["0.qkv"][name])}))
    assert load(path) is None
    assert "does not describe weights" in reasons(caplog)[0]


def test_facts_that_nobody_knows_are_passed_over(path: Path, weights: PackedWeights) -> None:
    rewrite(path, lambda header: header["matrices"]["0.qkv"].update(panels=[], color="red"))
    assert same(load(path), weights)


def test_only_this_user_may_read_what_is_written(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_not_used(path: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    path.chmod(mode)
    assert load(path) is None
    assert "another user may have written it" in reasons(caplog)[0]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_file_whose_time_cannot_be_set_is_used(
    path: Path, weights: PackedWeights, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Packed weights may lie in a read-only image, or belong to root."""

    def refuse(_number: int) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "utime", refuse)
    assert same(load(path), weights)


def test_the_least_recently_used_go_and_none_that_is_in_use(folder: Path, weights: PackedWeights) -> None:
    cache = PackedWeightsCache(folder, LIMIT)
    paths = [folder / f"model-{number}.packed" for number in range(5)]
    for number, path in enumerate(paths[:4]):
        cache.save(path, weights)
        os.utime(path, (1000 + number, 1000 + number))
    used = cache.load(paths[1], CONFIG)
    os.utime(paths[1], (1, 1))
    assert cache.load(paths[0], CONFIG) is not None
    size = paths[0].stat().st_size
    PackedWeightsCache(folder, 3 * size).save(paths[4], weights)
    assert sorted(path for path in paths if path.exists()) == [paths[0], paths[1], paths[4]]
    assert same(used, weights)
    del used
    PackedWeightsCache(folder, 2 * size).save(paths[4], weights)
    assert sorted(path for path in paths if path.exists()) == [paths[0], paths[4]]


def test_weights_beyond_the_limit_are_not_kept(
    path: Path, weights: PackedWeights, caplog: pytest.LogCaptureFixture
) -> None:
    PackedWeightsCache(path.parent, weights.byte_count - 1).save(path.with_name("other-1.packed"), weights)
    assert list(path.parent.iterdir()) == [path]
    assert "larger than the limit" in caplog.text


def test_without_locks_none_go_which_is_told_once(
    folder: Path, weights: PackedWeights, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: int) -> NoReturn:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    paths = [folder / f"model-{number}.packed" for number in range(4)]
    for path in paths:
        PackedWeightsCache(folder, weights.byte_count + (1 << 16)).save(path, weights)
    assert sorted(folder.iterdir()) == paths
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1
    assert "whatever room they take: their file system has no locks" in caplog.text


@pytest.mark.parametrize("comes_first", [True, False])
def test_files_that_another_worker_removes_meanwhile_are_passed_over(
    path: Path,
    weights: PackedWeights,
    comes_first: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The other worker comes just before this one looks at the file, or just after."""
    gone, old, real = path.with_name("gone-1.packed"), path.with_name("old-1.packed"), Path.stat

    def stat_of(self: Path, **options: Any) -> os.stat_result:
        if self == gone and comes_first:
            gone.unlink(missing_ok=True)
        found = real(self, **options)
        if self == gone:
            gone.unlink()
        return found

    for other in (gone, old):
        PackedWeightsCache(path.parent, LIMIT).save(other, weights)
    os.utime(old, (1, 1))
    monkeypatch.setattr(Path, "stat", stat_of)
    size = real(path).st_size
    PackedWeightsCache(path.parent, 2 * size - 1).save(path, weights)
    assert list(path.parent.iterdir()) == [path]
    assert "cannot be kept" not in caplog.text


def test_what_a_killed_process_left_goes_and_what_is_being_written_stays(path: Path, weights: PackedWeights) -> None:
    left, written = path.with_name("model-8.abc.new"), path.with_name("model-9.abc.new")
    left.write_bytes(b"half")
    with written.open("wb") as file:
        fused_weights_cache._lock(file, fcntl.LOCK_EX)
        PackedWeightsCache(path.parent, LIMIT).save(path, weights)
        assert sorted(path.parent.iterdir()) == [path, written]


def test_writers_and_readers_at_the_same_time_see_whole_files(path: Path, weights: PackedWeights) -> None:
    failures: list[BaseException] = []

    def write() -> None:
        for _ in range(3):
            PackedWeightsCache(path.parent, LIMIT).save(path, weights)

    def read() -> None:
        try:
            for _ in range(10):
                assert same(load(path), weights)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=work) for work in (write, write, write, read, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_nothing(
    folder: Path, weights: PackedWeights, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    PackedWeightsCache(folder, LIMIT).save(folder / "model-1.packed", weights)
    assert list(folder.iterdir()) == []
    assert "cannot be kept" in caplog.text
