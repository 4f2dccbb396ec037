"""Virtual time passes from act to act."""

from headrace.scheduler.simulation.clock import VirtualClock


def test_acts_follow_their_times_and_then_their_planning() -> None:
    clock = VirtualClock()
    seen: list[tuple[float, str]] = []

    def note(name: str) -> None:
        seen.append((clock.now, name))

    clock.at(2.0, lambda: note("late"))
    clock.at(1.0, lambda: note("first"))
    clock.at(1.0, lambda: note("second"))
    clock.at(1.0, lambda: clock.at(0.5, lambda: note("past")))
    clock.run(1.5)
    assert seen == [(1.0, "first"), (1.0, "second"), (1.0, "past")]
    assert clock.now == 1.5
    assert clock.advance()
    assert not clock.advance()
    assert seen[-1] == (2.0, "late")
