"""A request on its way through the platform, with services that are away."""

from typing import Any

import pytest

from headrace.errors import DeadlineExceeded, Unavailable
from headrace.gateway.config import GatewaySettings
from headrace.gateway.pipeline import Pipeline
from headrace.rpc.deadline import Deadline

pytestmark = pytest.mark.anyio


class FakeTokenizer:
    """Is away for a number of calls."""

    def __init__(self, absences: int) -> None:
        self._absences = absences

    async def encode_text(
        self, model: str, text: str, add_special_tokens: bool | None, timeout: float, limit: int | None
    ) -> list[int]:
        self._absences -= 1
        if self._absences >= 0:
            raise Unavailable("connection refused", stage="tokenize")
        return [1, 2]


def make(absences: int) -> Pipeline:
    nobody: Any = None
    tokenizer: Any = FakeTokenizer(absences)
    return Pipeline(GatewaySettings(), tokenizer, nobody, nobody, nobody)


async def test_a_tokenizer_that_is_replaced_is_waited_for() -> None:
    assert await make(2).encode_text("m", "x", None, Deadline.after(5)) == [1, 2]


async def test_a_tokenizer_that_stays_away_ends_in_the_deadline() -> None:
    with pytest.raises(DeadlineExceeded) as failure:
        await make(1000).encode_text("m", "x", None, Deadline.after(0.15))
    assert failure.value.stage == "tokenize"
