"""A second start takes the verdicts of the self test that the first has left, unless something has changed since."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.choice import processor, self_test
from headrace.engine.kernels.choice.candidates import candidates, choose_instructions, recall_verdicts, verdicts_here
from headrace.engine.kernels.choice.kept_verdicts import NAME, read_passed, write_passed
from headrace.engine.kernels.library import INSTRUCTIONS_VARIABLE, Instructions, available

pytestmark = [needs_kernels, pytest.mark.usefixtures("fresh_candidates")]
Start = Callable[[], list[Instructions]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts as a new process does, and returns the sets that it tested."""
    tested: list[Instructions] = []
    test = self_test.failure_of

    def note(instructions: Instructions) -> str:
        tested.append(instructions)
        return test(instructions)

    def run() -> list[Instructions]:
        tested.clear()
        candidates.cache_clear()
        verdicts_here.cache_clear()
        recall_verdicts(tmp_path)
        return list(tested)

    monkeypatch.setattr(self_test, "failure_of", note)
    return run


def test_a_second_start_tests_nothing(start: Start, tmp_path: Path) -> None:
    assert start() == available()[::-1]
    chosen, found = choose_instructions(), candidates()
    assert start() == []
    assert (choose_instructions(), candidates()) == (chosen, found)
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


def test_what_was_refused_is_tested_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(instructions: Instructions) -> str:
        return "the product is off" if instructions is max(available()) else ""

    with monkeypatch.context() as patch:
        patch.setattr(self_test, "failure_of", refuse)
        start()
        assert candidates()[-1 - max(available())].reason == "the product is off"
    assert start() == [max(available())]
    assert start() == []


def test_one_that_is_asked_for_is_kept_beside_the_others(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(INSTRUCTIONS_VARIABLE, "portable")
        assert start() == [Instructions.PORTABLE]
    assert start() == [each for each in available()[::-1] if each is not Instructions.PORTABLE]
    assert start() == []


def test_another_processor_is_tested(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One feature less is enough: a virtual machine may hide some."""
    facts = tmp_path.with_name("cpuinfo")
    for features in ("avx2 fma", "avx2"):
        facts.write_text(f"model name\t: Example\nflags\t: {features}\n")
        monkeypatch.setattr(processor, "CPU_FACTS", facts)
        assert start() == available()[::-1]
        assert start() == []


def test_other_kernels_are_tested(tmp_path: Path) -> None:
    write_passed(tmp_path, available())
    kept = tmp_path / NAME
    kept.write_text(kept.read_text().replace('"key": "', '"key": "0'))
    assert read_passed(tmp_path) == frozenset()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 1_000_000, b"KEY", b"SET"], ids=range(7))
def test_a_damaged_file_is_tested_again(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    write_passed(tmp_path, available())
    kept = tmp_path / NAME
    good = kept.read_bytes()
    changed = {b"KEY": good.replace(b"passed", b"missed"), b"SET": good.replace(b"PORTABLE", b"SSE9")}
    kept.write_bytes(changed.get(content, content))
    assert read_passed(tmp_path) == frozenset()
    assert "tested again" in caplog.text


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    write_passed(tmp_path / "file", available())
    assert "cannot be kept" in caplog.text
