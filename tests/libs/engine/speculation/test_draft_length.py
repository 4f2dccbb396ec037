"""Acceptance follows what was right lately, and a source that does not pay is paused."""

from headrace.engine.speculation.draft_length import FIRST_PAUSE, PROBE_LENGTH, DraftLength


def fail(length: DraftLength, count: int = 20) -> None:
    for _ in range(count):
        length.observe(2, 0)


def test_acceptance_follows_the_outcomes() -> None:
    length = DraftLength(acceptance=0.5)
    assert length.acceptance == 0.5
    for _ in range(20):
        length.observe(4, 4)
    assert length.acceptance > 0.9
    fail(length)
    assert length.acceptance < 0.2
    assert length.right_count == 80
    assert length.tested_count == 100


def test_a_pause_is_followed_by_a_short_probe_and_a_longer_pause() -> None:
    length = DraftLength(acceptance=0.5)
    assert length.limit(100, 8) == 8
    fail(length)
    length.pause(100)
    assert length.limit(100 + FIRST_PAUSE - 1, 8) == 0
    assert length.limit(100 + FIRST_PAUSE, 8) == PROBE_LENGTH
    assert length.acceptance == 0.5
    assert not length.tried
    fail(length)
    length.pause(200)
    assert length.limit(200 + 2 * FIRST_PAUSE - 1, 8) == 0
    assert length.limit(200 + 2 * FIRST_PAUSE, 1) == 1


def test_success_ends_the_probes_and_shortens_the_pauses() -> None:
    length = DraftLength(acceptance=0.5)
    for _ in range(3):
        length.observe(1, 0)
        length.pause(0)
    assert length.paused_until == 4 * FIRST_PAUSE
    assert length.limit(4 * FIRST_PAUSE, 8) == PROBE_LENGTH
    length.observe(2, 2)
    assert length.limit(4 * FIRST_PAUSE, 8) == 8
    length.pause(0)
    assert length.paused_until == FIRST_PAUSE


def test_a_source_whose_pauses_cost_something_gives_up() -> None:
    length = DraftLength(acceptance=0.5, patience=2)
    tries = []
    for token_count in range(1000):
        if length.limit(token_count, 8):
            tries.append(token_count)
            fail(length)
            length.pause(token_count)
    assert tries == [0, FIRST_PAUSE, 3 * FIRST_PAUSE]


def test_a_pause_without_a_try_is_short_and_costs_no_patience() -> None:
    """Drafts that do not pay beside others may pay when they are gone."""
    length = DraftLength(acceptance=0.5, patience=1)
    for token_count in range(0, 10 * FIRST_PAUSE, FIRST_PAUSE):
        assert length.limit(token_count, 8) > 0
        length.pause(token_count)
