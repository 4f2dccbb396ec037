"""Findings about NUMA nodes are those of a worker that starts there."""

import io

import pytest
from rich.console import Console
from tests.libs.engine.numa_machine import NumaMachine

from headrace.cli.commands import doctor
from headrace.cli.commands.doctor import Diagnosis


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> NumaMachine:
    return NumaMachine(monkeypatch)


def test_one_node_is_nothing_to_spread_over(machine: NumaMachine) -> None:
    assert doctor._numa([0]) == Diagnosis("NUMA", "ok", "1 node")
    assert machine.asked == []


def test_several_nodes_are_tried(machine: NumaMachine) -> None:
    assert doctor._numa([0, 1]) == Diagnosis("NUMA", "ok", "2 nodes; models on the CPU are interleaved over them")
    assert machine.asked == [[0, 1]]


def test_a_policy_that_somebody_chose_is_told(machine: NumaMachine) -> None:
    machine.mode = 2
    finding = doctor._numa([0, 1])
    assert (finding.status, "keep the memory policy" in finding.text) == ("ok", True)


def test_a_refusal_is_told_with_a_remedy(machine: NumaMachine) -> None:
    machine.refusal = PermissionError(1, "Operation not permitted")
    finding = doctor._numa([0, 1])
    assert finding.status == "note"
    assert "not interleaved: [Errno 1] Operation not permitted; permit set_mempolicy" in finding.text


def test_commands_are_printed_as_they_are() -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(doctor._table([Diagnosis("Engine", "ok", "python -m pip install 'headrace[torch]'")]))
    assert "'headrace[torch]'" in console.export_text()
