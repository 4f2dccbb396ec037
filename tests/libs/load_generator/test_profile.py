"""Profiles draw the same load for the same seed, as long as they say, within what the model can read."""

from itertools import pairwise
from statistics import median

import pytest

from headrace.load_generator.profile import PROFILES, draw_sessions


@pytest.mark.parametrize("name", PROFILES)
def test_the_same_seed_draws_the_same(name: str) -> None:
    first, second, other = (draw_sessions(PROFILES[name], 30, seed)[0] for seed in (1, 1, 2))
    assert first == second != other
    assert sum(map(len, first)) == 30


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("max_model_length", [64, 2048, 131_072])
def test_every_request_fits_the_model(name: str, max_model_length: int) -> None:
    sessions, scale = draw_sessions(PROFILES[name], 40, 0, max_model_length)
    lengths = [len(turn.prompt) + turn.output_token_count for session in sessions for turn in session]
    assert max(lengths) <= max_model_length
    assert (scale < 1.0) is (lengths != lengths_of(name, None))


def lengths_of(name: str, max_model_length: int | None) -> list[int]:
    sessions, _ = draw_sessions(PROFILES[name], 40, 0, max_model_length)
    return [len(turn.prompt) + turn.output_token_count for session in sessions for turn in session]


def test_turns_repeat_those_before_them() -> None:
    sessions, _ = draw_sessions(PROFILES["chat"], 200, 0)
    assert 2 < 200 / len(sessions) < 4
    for session in sessions:
        for earlier, later in pairwise(session):
            assert later.prompt[: len(earlier.prompt)] == earlier.prompt
            assert len(later.prompt) > len(earlier.prompt) + earlier.output_token_count


def test_beginnings_are_shared() -> None:
    def beginnings(name: str) -> int:
        return len({tuple(session[0].prompt[:100]) for session in draw_sessions(PROFILES[name], 400, 0)[0]})

    assert {name: beginnings(name) for name in ("batch", "chat", "code")} == {"batch": 1, "chat": 4, "code": 8}


def test_lengths_are_what_they_say() -> None:
    outputs = [session[0].output_token_count for session in draw_sessions(PROFILES["rag"], 2000, 0)[0]]
    assert 110 < median(outputs) < 130
    assert max(outputs) <= 400
