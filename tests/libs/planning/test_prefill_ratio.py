"""The ratio follows from the times of both phases, and grows with the prompt."""

import pytest
from tests.libs.planning.test_deployment import deployed

from headrace.planning.prefill_ratio import MAX_WORKERS, PrefillRatio


@pytest.mark.parametrize(
    ("prefill", "decode", "workers"),
    [(1.0, 1.0, (1, 1)), (1.0, 3.0, (1, 3)), (3.0, 2.0, (3, 2)), (1.0, 100.0, (1, 8)), (100.0, 1.0, (8, 1))],
)
def test_workers_are_busy_alike(prefill: float, decode: float, workers: tuple[int, int]) -> None:
    assert PrefillRatio(prefill, decode).workers == workers


def test_longer_prompts_want_more_prefill_workers_and_longer_outputs_fewer() -> None:
    found = deployed("llama-3.1-8b", "h100")

    def ratio(prompt_count: int, output_count: int) -> float:
        made = PrefillRatio.of(found, prompt_count, output_count, batch=16)
        assert made is not None
        return made.prefill_seconds / made.decode_seconds

    assert ratio(500, 300) < ratio(2000, 300) < ratio(8000, 300)
    assert ratio(2000, 1000) < ratio(2000, 300)
    made = PrefillRatio.of(found, 2000, 300, 16)
    assert made is not None
    assert made.prefill_seconds == found.prefill_seconds(2000)
    assert all(1 <= count <= MAX_WORKERS for count in made.workers)


def test_what_does_not_fit_has_none() -> None:
    assert PrefillRatio.of(deployed("llama-3.1-8b", "l4"), 100_000, 300, batch=64) is None
