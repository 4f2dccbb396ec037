"""A smaller model answers for one that has no room or sleeps, if the caller may use it and nothing was sent yet."""

from math import inf

import pytest

from headrace.access.key_record import KeyRecord
from headrace.errors import Overloaded
from headrace.gateway.access.caller import Caller
from headrace.gateway.request.overflow import Overflow

pytestmark = pytest.mark.anyio
WAITS = {"big": 9.0, "small": 0.0, "tiny": 0.0}


async def run(
    full: set[str], longest_wait: float = inf, *, started: bool = False, caller: Caller | None = None
) -> list[str]:
    """Returns the models that were tried; the last one answered."""
    overflow = Overflow(WAITS.__getitem__, {"big": "small", "small": "tiny"}, longest_wait)
    tried: list[str] = []

    async def attempt(model: str) -> None:
        tried.append(model)
        if model in full:
            raise Overloaded(model)

    await overflow.run("big", caller or Caller(), attempt, lambda: started)
    return tried


def caller_of(model: str) -> Caller:
    key = KeyRecord(id="abcdefgh", name="k", tenant="t", digest="0" * 64, created=0, models=(model,))
    return Caller(key=key)


async def test_the_model_itself_answers_where_it_has_room() -> None:
    assert await run(set()) == ["big"]


async def test_a_full_queue_goes_to_the_smaller_one_once() -> None:
    assert await run({"big"}) == ["big", "small"]
    with pytest.raises(Overloaded, match="small"):
        await run({"big", "small"})


async def test_a_model_that_sleeps_for_too_long_is_not_tried() -> None:
    assert await run(set(), longest_wait=10) == ["big"]
    assert await run(set(), longest_wait=5) == ["small"]
    assert await run({"small"}, longest_wait=5) == ["small", "tiny"]


async def test_a_key_must_allow_both_models() -> None:
    only_big, only_small = (caller_of(model) for model in ("big", "small"))
    assert await run(set(), longest_wait=5, caller=only_big) == ["big"]
    assert await run(set(), longest_wait=5, caller=only_small) == ["big"], "which then refuses the key"
    with pytest.raises(Overloaded, match="big"):
        await run({"big"}, caller=only_big)


async def test_an_answer_that_has_begun_keeps_its_model() -> None:
    with pytest.raises(Overloaded, match="big"):
        await run({"big"}, started=True)
