"""Instruction sets of the kernels, and which of them may be used here."""

import functools
import logging
from dataclasses import dataclass
from pathlib import Path

from headrace.engine.kernels.choice.kept_verdicts import read_passed, write_passed
from headrace.engine.kernels.library import (
    INSTRUCTIONS_VARIABLE,
    Instructions,
    available,
    forced_instructions,
    unusable,
    why_not,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KernelCandidate:
    """An instruction set, and whether its kernels may be used."""

    instructions: Instructions
    reason: str
    """Reason why the kernels may not be used; empty if they may."""


@functools.cache
def candidates() -> tuple[KernelCandidate, ...]:
    """Tests all instruction sets, fastest first, once, and logs those that this machine supports and the test refuses.
    Raises ConfigError if HEADRACE_ISA asks for one that there is not, or that this machine does not support."""
    forced, here = forced_instructions(), available()
    tested = tuple(KernelCandidate(each, _reason(each, forced, each in here)) for each in reversed(Instructions))
    for each in tested:
        if forced is None and each.reason and each.instructions in here:
            _log.error("kernels are not used", extra={"kernels": each.instructions.name, "why": each.reason})
    return tested


def choose_instructions() -> Instructions | None:
    """Returns the fastest set whose kernels compute correct results, or the one that HEADRACE_ISA asks for; None if
    there is none. Raises ConfigError if HEADRACE_ISA asks for one that cannot be used."""
    forced = forced_instructions()
    for candidate in candidates():
        if not candidate.reason:
            return candidate.instructions
        if candidate.instructions is forced:
            raise unusable(forced, candidate.reason)
    return None


def recall_verdicts(folder: Path) -> None:
    """Tests what no earlier start has left as passed in `folder`, and leaves there what passes. Nothing in a process
    that has tested already. Raises ConfigError as `candidates` does."""
    verdicts = verdicts_here()
    if verdicts:
        return
    known = read_passed(folder)
    verdicts.update(dict.fromkeys(known, ""))
    candidates()
    passed = {each for each, reason in verdicts.items() if not reason}
    if passed > known:
        write_passed(folder, passed)


@functools.cache
def verdicts_here() -> dict[Instructions, str]:
    """Returns what the self test found in this process or, if recalled, in an earlier one: a reason for each set that
    was tested, empty if it passed."""
    return {}


def _reason(instructions: Instructions, forced: Instructions | None, is_here: bool) -> str:
    if forced not in (None, instructions):
        return f"{INSTRUCTIONS_VARIABLE} asks for {forced.name.lower()}"
    return _verdict(instructions) if is_here else why_not(instructions)


def _verdict(instructions: Instructions) -> str:
    verdicts = verdicts_here()
    if instructions not in verdicts:
        # Its trials import what a start with kept verdicts does without.
        from headrace.engine.kernels.choice.self_test import failure_of

        verdicts[instructions] = failure_of(instructions)
    return verdicts[instructions]
