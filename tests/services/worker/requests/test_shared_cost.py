"""Everything that a step costs is shared out among its requests, once."""

import pytest

from headrace.engine.contract.request import Delta
from headrace.worker.requests.shared_cost import SharedCost


def test_a_step_is_shared_by_tokens() -> None:
    """One request reads 9 new tokens and makes the first, the other makes one."""
    deltas = [Delta("long", 0, (1,), cached_token_count=3), Delta("decode", 7, (2,))]
    shares = SharedCost(3600.0).share(2.2, deltas, {"long": 12})
    assert shares == pytest.approx({"long": 2.0, "decode": 0.2})


def test_steps_without_an_output_wait_for_one() -> None:
    """A prompt in three parts makes its first token in the third."""
    cost = SharedCost(3600.0)
    assert cost.share(1.0, [], {}) == {}
    assert cost.share(1.0, [], {}) == {}
    assert cost.share(1.0, [Delta("r", 0, (1,))], {"r": 100}) == pytest.approx({"r": 3.0})
    assert cost.share(1.0, [Delta("r", 1, (1,))], {}) == pytest.approx({"r": 1.0})


def test_an_end_without_a_token_takes_no_share() -> None:
    cost = SharedCost(3600.0)
    assert cost.share(1.0, [Delta("r", 3, ())], {}) == {}
    assert cost.share(1.0, [Delta("s", 3, (5,))], {}) == pytest.approx({"s": 2.0})


def test_without_a_price_time_is_free() -> None:
    assert not SharedCost(0.0).is_known
    assert SharedCost(0.1).is_known
