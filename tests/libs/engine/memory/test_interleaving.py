"""Memory is interleaved where there are several nodes, unless somebody chose otherwise or the system refuses."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.libs.engine.numa_machine import INTERLEAVE, NumaMachine

from headrace.engine.memory import interleaving
from headrace.engine.memory.interleaving import interleave_memory, interleave_over, memory_mode
from headrace.engine.memory.numa_nodes import usable_nodes

REAL = """
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from headrace.engine.memory.interleaving import interleave_memory, interleave_over, memory_mode
from headrace.engine.memory.numa_nodes import usable_nodes
print(interleave_over(usable_nodes()[:1]))
interleave_memory()
bytearray(1 << 22)
with ThreadPoolExecutor(1) as pool:
    print(memory_mode(), pool.submit(memory_mode).result(), flush=True)
child = "from headrace.engine.memory.interleaving import memory_mode; print(memory_mode())"
subprocess.run([sys.executable, "-c", child], check=True)
"""


@pytest.fixture(autouse=True)
def _told_again() -> Iterator[None]:
    interleaving._log_refusal.cache_clear()
    yield
    interleaving._log_refusal.cache_clear()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> NumaMachine:
    return NumaMachine(monkeypatch)


def test_two_nodes_take_turns(machine: NumaMachine) -> None:
    interleave_memory()
    interleave_memory()
    assert machine.asked == [[0, 1]]
    assert memory_mode() == INTERLEAVE


def test_nodes_of_large_numbers_are_asked_for(machine: NumaMachine) -> None:
    assert interleave_over([1, 63, 64, 200])
    assert machine.asked == [[1, 63, 64, 200]]


def test_one_node_is_left_alone(machine: NumaMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaving, "usable_nodes", lambda _: [1])
    interleave_memory()
    assert machine.asked == []


def test_a_policy_that_somebody_chose_stays(machine: NumaMachine) -> None:
    machine.mode = 2
    interleave_memory()
    assert not interleave_over([0, 1])
    assert machine.asked == []


def test_a_refusal_is_told_once(machine: NumaMachine, caplog: pytest.LogCaptureFixture) -> None:
    machine.refusal = PermissionError(1, "Operation not permitted")
    with caplog.at_level(logging.WARNING):
        interleave_memory()
        interleave_memory()
    (record,) = caplog.records
    assert "not interleaved" in record.message
    assert "Operation not permitted" in record.__dict__["error"]


def test_a_machine_without_such_calls_refuses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(interleaving, "usable_nodes", lambda _: [0, 1])
    monkeypatch.setattr(interleaving, "_CALLS", {})
    interleave_memory()
    (record,) = caplog.records
    assert "not known on this kind of machine" in record.__dict__["error"]


@pytest.mark.process
def test_the_system_takes_the_policy_for_this_thread_and_later_ones_and_processes() -> None:
    try:
        memory_mode()
    except OSError as error:
        pytest.skip(f"the system knows no memory policies ({error}); to run it: Linux with NUMA, outside of containers")
    if not usable_nodes():
        pytest.skip("the system tells of no nodes; to run it: Linux with /sys")
    done = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", *[str(INTERLEAVE)] * 3]


def test_nothing_happens_without_a_description_of_the_machine(tmp_path: Path) -> None:
    before = mode_if_known()
    interleave_memory(tmp_path)
    assert mode_if_known() == before


def mode_if_known() -> int | None:
    try:
        return memory_mode()
    except OSError:
        return None
