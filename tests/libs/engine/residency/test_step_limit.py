"""Steps get smaller where memory runs out, and larger again while all goes well."""

from headrace.engine.residency.step_limit import GOOD_STEPS, MAX_FAILURES, StepLimit


def test_the_budget_halves_and_comes_back() -> None:
    limit = StepLimit(most=64, least=16)
    assert limit.token_count is None
    for smaller in (32, 16, 16):
        limit.note_failure()
        assert limit.token_count == smaller
    for larger in (32, None):
        changes = [limit.note_success() for _ in range(GOOD_STEPS)]
        assert changes == [False] * (GOOD_STEPS - 1) + [True]
        assert limit.token_count == larger


def test_failures_in_a_row_are_hopeless() -> None:
    limit = StepLimit(most=64, least=16)
    for _ in range(MAX_FAILURES):
        limit.note_failure()
    assert not limit.is_hopeless
    limit.note_success()
    for _ in range(MAX_FAILURES + 1):
        limit.note_failure()
    assert limit.is_hopeless
    limit.forgive()
    assert not limit.is_hopeless
