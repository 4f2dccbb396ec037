"""Ten seconds of mixed traffic leaves nothing behind. `make soak` soaks for an hour, and measures growth."""

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.soak.footprint import MAX_MIB, Footprint, footprint, growing, growth_per_hour, restarted, second_half
from tests.soak.run import soak

pytestmark = pytest.mark.slow
WARM_SECONDS = 6.0
SECONDS = 10.0
SPARE_DESCRIPTORS = 2
"""A connection between services may just be opened again."""
BURSTING = ("worker", "nats")
"""Processes whose memory so short a time says nothing of: KV blocks used for the first time, Go's garbage collector."""
MAX_GROWTH_MIB = 8.0
"""Most growth between rest before and rest after. A leak of 15 kilobytes a request is more, and `make soak`, which
holds a smaller bound, has three hundred times as long."""

FORKED_MIB = 16
FORK = """
import mmap, os, sys
path, size = sys.argv[1], int(sys.argv[2])
inherited = bytearray(os.urandom(size))
if os.fork():
    os.wait()
    sys.exit()
print(os.getpid(), flush=True)
sys.stdin.readline()
for page in range(0, size, 4096):
    inherited[page] = 1
print(flush=True)
sys.stdin.readline()
with open(path, "rb") as file:
    mapped = mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)
read = sum(mapped[page] for page in range(0, size, 4096))
print(flush=True)
sys.stdin.readline()
taken = bytearray(os.urandom(size))
print(flush=True)
sys.stdin.readline()
"""
"""Program whose fork copies memory that it shares, reads a mapped file, and takes memory, in turn."""


def test_traffic_leaves_nothing_behind() -> None:
    seen = asyncio.run(soak(SECONDS, WARM_SECONDS, sample_seconds=5.0))
    assert set(seen.outcomes) == {"ok"}
    assert seen.held == {}
    assert restarted(seen.samples) == []
    for name, before in seen.before.items():
        after = seen.after[name]
        assert after.descriptors <= before.descriptors + SPARE_DESCRIPTORS, name
        if not name.startswith(BURSTING):
            assert after.anonymous_mib - before.anonymous_mib < MAX_GROWTH_MIB, name


def test_growth_is_a_slope_and_a_restart_is_seen() -> None:
    samples = [Footprint(float(second), 1, 20, 50 + second / 600, 9) for second in range(0, 600, 10)]
    assert growth_per_hour(samples) == pytest.approx(6.0)
    full = [Footprint(float(second), 1, 20, 50 + min(second, 300) / 600, 9) for second in range(0, 600, 10)]
    assert growth_per_hour(full) > 1
    assert growth_per_hour(second_half(full)) == pytest.approx(0.0)
    assert restarted({"a": samples, "b": [*samples, Footprint(600.0, 2, 20, 50, 9)]}) == ["b"]


def test_a_server_of_nats_may_fill_its_buffers_and_no_service_may_grow() -> None:
    def series(first: float, per_hour: float) -> list[Footprint]:
        return [Footprint(float(at), 1, 20, first + per_hour * at / 3600, 9) for at in range(0, 3600, 60)]

    assert growing({"cache": series(80, 0.9), "nats": series(7, 4)}) == []
    assert growing({"cache": series(80, 1.1), "nats": series(MAX_MIB["nats"], 4)}) == ["cache", "nats"]


def test_pages_of_files_and_of_the_fork_server_are_no_growth(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(FORKED_MIB << 20))
    command = [sys.executable, "-c", FORK, str(path), str(FORKED_MIB << 20)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        process = psutil.Process(int(program.stdout.readline()))
        seen = [footprint(process)]
        for _ in range(3):
            program.stdin.write("\n")
            program.stdin.flush()
            program.stdout.readline()
            seen.append(footprint(process))
        program.stdin.close()
    forked, copied, read, taken = seen
    assert copied.own_mib - forked.own_mib > 0.9 * FORKED_MIB
    assert read.own_mib - copied.own_mib > 0.9 * FORKED_MIB
    assert read.anonymous_mib - forked.anonymous_mib < 0.1 * FORKED_MIB
    assert taken.anonymous_mib - read.anonymous_mib > 0.9 * FORKED_MIB
