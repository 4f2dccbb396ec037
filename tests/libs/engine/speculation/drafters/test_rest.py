"""A head that drafts nothing follows ever fewer steps, and all of them as soon as it drafts."""

from itertools import groupby

from headrace.engine.speculation.drafters.rest import AWAKE_STEPS, FIRST_REST, MAX_REST, Rest


def runs(rest: Rest, count: int) -> list[tuple[bool, int]]:
    return [(follows, len([*steps])) for follows, steps in groupby(rest.begin_step() for _ in range(count))]


def test_rests_become_longer_until_it_drafts() -> None:
    rest = Rest()
    found = runs(rest, 6 * AWAKE_STEPS + 15 * FIRST_REST + 2 * MAX_REST)
    awake = [count for follows, count in found if follows]
    resting = [count for follows, count in found if not follows]
    assert awake == [AWAKE_STEPS] * 6
    assert resting == [64, 128, 256, 512, 1024, 1024]
    rest.note_drafts()
    assert runs(rest, AWAKE_STEPS + FIRST_REST) == [(True, AWAKE_STEPS), (False, FIRST_REST)]


def test_a_head_that_drafts_now_and_then_follows_every_step() -> None:
    rest = Rest()
    for _ in range(20):
        assert runs(rest, AWAKE_STEPS) == [(True, AWAKE_STEPS)]
        rest.note_drafts()
