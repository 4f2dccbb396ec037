"""Findings about a machine: those about NUMA nodes are of a worker that starts there; texts are printed whole."""

import importlib.util
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


def test_torch_is_missed_by_what_needs_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders and weights of 16 bits run on the compiled kernels."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    finding = next(doctor._engine())
    assert (finding.subject, finding.status) == ("Engine", "ok")
    assert finding.text.startswith("without torch, which GPUs, several processes for one model and quantizing need: ")
    assert [word for word in ("encoder", "16-bit", "16 bits") if word in finding.text] == []


def printed(finding: Diagnosis, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(doctor._table([finding]))
    return console.export_text()


def test_commands_are_printed_as_they_are() -> None:
    assert "'headrace[torch]'" in printed(Diagnosis("Engine", "ok", "python -m pip install 'headrace[torch]'"), 200)


def test_a_path_is_printed_whole_where_the_terminal_is_narrow() -> None:
    path = "/home/someone" + "".join(f"/folder-{number:03}" for number in range(10)) + "/bin/python"
    text = printed(Diagnosis("Python", "ok", f"3.13.0 ({path})"), 40)
    assert len(path) > 120
    assert max(map(len, text.splitlines())) <= 40
    assert "…" not in text
    assert path in "".join(text.split())
