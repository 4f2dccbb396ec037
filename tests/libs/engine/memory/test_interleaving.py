"""Memory is interleaved where there are several nodes, unless somebody chose otherwise or the system refuses."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.memory import interleaving
from headrace.engine.memory.interleaving import MemoryPolicy, interleave_memory, memory_policy
from headrace.engine.memory.numa_nodes import usable_nodes

REAL = """
from concurrent.futures import ThreadPoolExecutor
from headrace.engine.memory.interleaving import interleave_memory, interleave_over, memory_policy
from headrace.engine.memory.numa_nodes import usable_nodes
interleave_over(usable_nodes()[:1])
interleave_memory()
bytearray(1 << 22)
with ThreadPoolExecutor(1) as pool:
    print(memory_policy(), pool.submit(memory_policy).result(), memory_policy().is_interleaved)
"""


@pytest.fixture(autouse=True)
def _told_again() -> Iterator[None]:
    interleaving._log_refusal.cache_clear()
    yield
    interleaving._log_refusal.cache_clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Nodes that the system is asked for, which has two and no policy yet."""
    found: list[list[int]] = []
    monkeypatch.setattr(interleaving, "usable_nodes", lambda _: [0, 1])
    monkeypatch.setattr(interleaving, "memory_policy", lambda: MemoryPolicy(0, ()))
    monkeypatch.setattr(interleaving, "interleave_over", found.append)
    return found


def test_two_nodes_take_turns(asked: list[list[int]]) -> None:
    interleave_memory()
    assert asked == [[0, 1]]


def test_one_node_is_left_alone(asked: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaving, "usable_nodes", lambda _: [1])
    interleave_memory()
    assert asked == []


def test_a_policy_that_somebody_chose_stays(asked: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaving, "memory_policy", lambda: MemoryPolicy(2, (1,)))
    interleave_memory()
    assert asked == []


@pytest.mark.usefixtures("asked")
def test_a_refusal_is_told_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: list[int]) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(interleaving, "interleave_over", refuse)
    with caplog.at_level(logging.WARNING):
        interleave_memory()
        interleave_memory()
    (record,) = caplog.records
    assert "not interleaved" in record.message
    assert "Operation not permitted" in record.__dict__["error"]


def test_a_machine_without_such_calls_refuses(asked: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaving, "memory_policy", memory_policy)
    monkeypatch.setattr(interleaving, "_CALLS", {})
    interleave_memory()
    assert asked == []


@pytest.mark.process
def test_the_system_takes_the_policy_for_this_thread_and_later_ones() -> None:
    try:
        memory_policy()
    except OSError as error:
        pytest.skip(f"the system knows no memory policies ({error}); to run it: Linux with NUMA, outside of containers")
    if not (nodes := usable_nodes()):
        pytest.skip("the system tells of no nodes; to run it: Linux with /sys")
    done = subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, timeout=60, check=True)
    policy = MemoryPolicy(3, (nodes[0],))
    assert done.stdout.strip() == f"{policy} {policy} True"


def test_nothing_happens_without_a_description_of_the_machine(tmp_path: Path) -> None:
    before = memory_policy_if_known()
    interleave_memory(tmp_path)
    assert memory_policy_if_known() == before


def memory_policy_if_known() -> MemoryPolicy | None:
    try:
        return memory_policy()
    except OSError:
        return None
