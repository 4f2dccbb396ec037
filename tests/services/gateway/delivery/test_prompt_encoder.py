"""A gateway without tokenizers waits for one, but not for as long as the request may take."""

import time
from typing import Any

import pytest

from headrace.domain.deadline import Deadline
from headrace.errors import DeadlineExceeded, Unavailable
from headrace.gateway.delivery import prompt_encoder
from headrace.gateway.delivery.prompt_encoder import PromptEncoder

pytestmark = pytest.mark.anyio


class AbsentTokenizer:
    """Answers after so many calls."""

    def __init__(self, absent_count: float = float("inf")) -> None:
        self.call_count = 0
        self._absent_count = absent_count

    async def decode(self, model: str, token_ids: list[int], skip_special_tokens: bool, timeout: float) -> str:
        self.call_count += 1
        if self.call_count <= self._absent_count:
            raise Unavailable("no tokenizer answers", stage="tokenize")
        return "text"


class AnyFleet:
    def tokenizer_of(self, name: str) -> str:
        return name


def encoder(tokenizer: AbsentTokenizer) -> PromptEncoder:
    made: tuple[Any, Any] = tokenizer, AnyFleet()
    return PromptEncoder(*made)


async def test_a_tokenizer_that_comes_back_is_waited_for() -> None:
    assert await encoder(AbsentTokenizer(3)).decode("m", [1], Deadline.after(30)) == "text"


async def test_a_gateway_that_reaches_none_refuses_so_that_another_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_encoder, "PATIENCE_SECONDS", 0.3)
    started = time.monotonic()
    with pytest.raises(Unavailable, match="no tokenizer answers") as refused:
        await encoder(AbsentTokenizer()).decode("m", [1], Deadline.after(600))
    assert (refused.value.stage, refused.value.retry_after) == ("tokenize", 1)
    assert 0.3 <= time.monotonic() - started < 10


async def test_a_deadline_that_passes_before_is_reported_as_such() -> None:
    with pytest.raises(DeadlineExceeded):
        await encoder(AbsentTokenizer()).decode("m", [1], Deadline.after(0.3))
