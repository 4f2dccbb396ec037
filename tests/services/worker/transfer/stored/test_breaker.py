"""A store that fails is left alone for a while, and then tried by one call."""

from headrace.worker.transfer.stored.breaker import SUSPENDED_SECONDS, Breaker


def test_one_call_tries_again() -> None:
    now = 100.0
    breaker = Breaker(lambda: now)
    assert breaker.allows()
    breaker.note_failure()
    assert not breaker.allows()
    now += SUSPENDED_SECONDS
    assert breaker.allows()
    assert not breaker.allows(), "the first one's outcome is awaited"
    breaker.note_failure()
    now += SUSPENDED_SECONDS
    assert breaker.allows()
    breaker.note_success()
    assert breaker.allows()
    assert breaker.allows()
