"""A bound of reasoning forces the end of the section, once, where it is due and nowhere else."""

import pytest

from headrace.engine.contract.reasoning_limit import ReasoningLimit

START, END = (90,), (91, 92, 93)


def continued(limit: ReasoningLimit, output: tuple[int, ...], wanted: int) -> tuple[int, ...]:
    """Goes on with 7, 8, 9, ... where the limit leaves the choice."""
    for free in range(7, 7 + wanted):
        forced = limit.forced_token_id(output)
        output = (*output, free if forced is None else forced)
    return output


@pytest.mark.parametrize(
    ("limit", "output", "expected"),
    [
        (ReasoningLimit(2, START, END), (), (7, 8, 9, 10, 11, 12, 13)),
        (ReasoningLimit(2, START, END), (90, 1), (90, 1, 7, 91, 92, 93, 11, 12, 13)),
        (ReasoningLimit(2, (), END), (), (7, 8, 91, 92, 93, 12, 13)),
        (ReasoningLimit(0, (), END), (), (91, 92, 93, 10, 11, 12, 13)),
        (ReasoningLimit(5, (), END), (1, 91, 92, 93), (1, 91, 92, 93, 7, 8, 9, 10, 11, 12, 13)),
        # The section is about to end by itself: only the rest of the end is missing.
        (ReasoningLimit(3, (), END), (1, 91, 92), (1, 91, 92, 93, 8, 9, 10, 11, 12, 13)),
        (ReasoningLimit(1, (), (91,)), (1,), (1, 91, 8, 9, 10, 11, 12, 13)),
    ],
)
def test_the_end_follows_the_bound(limit: ReasoningLimit, output: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert continued(limit, output, 7) == expected
