"""Compares answers with those of an undisturbed run: which tokens are missing, doubled or other ones."""

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from tests.faults.asking import OK, Answer


@dataclass(frozen=True)
class Difference:
    """Errors found in one answer: counts of tokens, and whether it equals the undisturbed one."""

    lost: int = 0
    doubled: int = 0
    equal: bool = True


def essence(answer: Answer) -> list[Any]:
    """All of an answer that must be the same every time."""
    choices = sorted(answer.choices.items())
    said = [(index, found.token_ids, found.text, found.finish_reason, found.logprobs) for index, found in choices]
    return [said, answer.vectors]


def compare(answer: Answer, undisturbed: Answer) -> Difference:
    """Looks at an answer. One that failed must have said the beginning of what it was to say."""
    whole = answer.outcome == OK
    lost = doubled = 0
    for index, expected in undisturbed.choices.items():
        found = answer.choices.get(index)
        ids = found.token_ids if found else []
        missing, more = _count(ids, expected.token_ids if whole else expected.token_ids[: len(ids)])
        lost, doubled = lost + missing, doubled + more
    equal = essence(answer) == essence(undisturbed) if whole else not lost and not doubled
    return Difference(lost, doubled, equal)


def _count(found: list[int], expected: list[int]) -> tuple[int, int]:
    """Counts the tokens that are missing and those too many. A token replaced by another is both."""
    if found == expected:
        return 0, 0
    changes = SequenceMatcher(None, expected, found, autojunk=False).get_opcodes()
    lost = sum(end - start for tag, start, end, _, _ in changes if tag in ("delete", "replace"))
    doubled = sum(end - start for tag, _, _, start, end in changes if tag in ("insert", "replace"))
    return lost, doubled
