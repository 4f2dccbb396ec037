"""Memory for weights is the process's own: only that has huge pages as systems are set up."""

from pathlib import Path

import pytest
from tests.libs.engine.memory.refused_advice import refuse_advice

from headrace.engine.memory.aligned import HUGE_PAGE, address, allocate, give_back_freed

MAPS = Path("/proc/self/maps")


@pytest.mark.skipif(not MAPS.exists(), reason="there is no /proc; to run it: Linux")
def test_large_blocks_are_private_whole_pages_of_zeros() -> None:
    memory = allocate(3 * HUGE_PAGE + 5)
    assert memory.shape == (3 * HUGE_PAGE + 5,)
    assert address(memory) % HUGE_PAGE == 0
    assert not memory.any()
    ranges = [line.split()[:2] for line in MAPS.read_text().splitlines()]
    (permissions,) = (
        found
        for area, found in ranges
        if int(area.partition("-")[0], 16) <= address(memory) < int(area.partition("-")[2], 16)
    )
    assert permissions == "rw-p"


def test_a_system_without_huge_pages_gives_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_advice(monkeypatch)
    memory = allocate(HUGE_PAGE + 5)
    assert memory.shape == (HUGE_PAGE + 5,)
    assert not memory.any()


def test_small_blocks_are_not_rounded_up() -> None:
    assert allocate(100).nbytes == 100


def test_giving_back_harms_nothing_that_is_held() -> None:
    memory = allocate(HUGE_PAGE)
    memory[7] = 7
    give_back_freed()
    assert memory[7] == 7
