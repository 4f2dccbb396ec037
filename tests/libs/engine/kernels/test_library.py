"""HEADRACE_ISA names the one instruction set to use, and a name that cannot be used is an error."""

from collections.abc import Iterator

import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.choice.candidates import candidates, choose_instructions
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import (
    INSTRUCTIONS_VARIABLE,
    Instructions,
    available,
    forced_instructions,
    why_not,
)
from headrace.errors import ConfigError

pytestmark = needs_kernels


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    candidates.cache_clear()
    yield
    candidates.cache_clear()


@pytest.mark.parametrize("name", ["portable", "PORTABLE"])
def test_the_named_set_is_used_and_no_other(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(INSTRUCTIONS_VARIABLE, name)
    assert available() == [Instructions.PORTABLE]
    assert choose_instructions() is Instructions.PORTABLE
    assert KernelContext(1).instructions is Instructions.PORTABLE
    reasons = {each.reason for each in candidates() if each.instructions is not Instructions.PORTABLE}
    assert reasons == {"HEADRACE_ISA asks for portable"}


def test_an_empty_name_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(INSTRUCTIONS_VARIABLE, "")
    assert forced_instructions() is None
    assert choose_instructions() is max(available())


@pytest.mark.parametrize("ask", [available, candidates, choose_instructions])
def test_an_unknown_name_is_an_error(monkeypatch: pytest.MonkeyPatch, ask: type) -> None:
    monkeypatch.setenv(INSTRUCTIONS_VARIABLE, "sse9")
    with pytest.raises(ConfigError, match=r"HEADRACE_ISA is 'sse9', no instruction set; .*portable, neon, .*amx"):
        ask()


def test_a_set_that_this_machine_lacks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [each for each in Instructions if why_not(each)]
    if not missing:
        pytest.skip("this machine has all instruction sets; to run it: one without AMX")
    name, reason = missing[-1].name.lower(), why_not(missing[-1])
    monkeypatch.setenv(INSTRUCTIONS_VARIABLE, name)
    with pytest.raises(ConfigError, match=f"asks for {name}, which cannot be used: {reason}"):
        choose_instructions()


def test_sets_of_two_architectures_are_never_here_together() -> None:
    """The best of all is therefore of this machine."""
    arm = {Instructions.NEON, Instructions.I8MM}
    assert arm.isdisjoint(available()) or max(available()) in arm
