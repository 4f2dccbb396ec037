"""Prompts of conversations, for a trace that has only lengths and times."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.harness.kv_tiers.demanded_blocks import Prompt

from headrace.scheduler.simulation.traffic import Arrival

TENANT_COUNT = 8
SYSTEM_TOKENS = 300
"""Tokens that all conversations of a tenant begin with."""
CONTINUED_SHARE = 0.6
"""Share of requests that continue a conversation, as far as one fits."""
IDLE_SECONDS = 600.0
"""Time after which a conversation is over."""
MAX_OPEN = 400
MAX_TOKENS = 16_384
DAY_SECONDS = 86_400.0


@dataclass(slots=True)
class Conversation:
    """Tokens of all turns so far, answers included."""

    tenant: str
    token_ids: tuple[int, ...]
    time: float


@dataclass(frozen=True, slots=True)
class Turn:
    """Request of a conversation."""

    time: float
    prompt: Prompt
    conversation_id: int


def repeated(arrivals: tuple[Arrival, ...], seconds: float) -> Iterator[Arrival]:
    """Yields the arrivals again and again, each time shifted to the end of the time before, for so many seconds."""
    gap = arrivals[-1].time / len(arrivals)
    shift = 0.0
    while True:
        for arrival in arrivals:
            if arrival.time + shift > seconds:
                return
            yield replace(arrival, time=arrival.time + shift)
        shift += arrivals[-1].time + gap


def made_arrivals(count: int, seed: int) -> tuple[Arrival, ...]:
    """Makes arrivals at random, with lengths like those of conversations."""
    dice, time, found = random.Random(seed), 0.0, []
    for _ in range(count):
        time += dice.expovariate(5.0)
        prompt = 16 + int(min(8000.0, dice.lognormvariate(6.5, 0.9)))
        found.append(Arrival(time, prompt, 1 + int(dice.expovariate(1 / 200))))
    return tuple(found)


def turns(arrivals: Iterator[Arrival], seed: int) -> Iterator[Turn]:
    """Yields a prompt of the length of each arrival. It continues the longest of some open conversations that fits into
    it, or begins a new one with its tenant's first tokens; the rest, and the answer, are tokens that no other has."""
    dice = random.Random(seed)
    open_ones: dict[int, Conversation] = {}
    numbers = iter(range(1 << 40))
    for arrival in arrivals:
        count = min(MAX_TOKENS, arrival.prompt_token_count)
        fitting = [
            (len(one.token_ids), key)
            for key in (dice.sample([*open_ones], min(24, len(open_ones))) if open_ones else ())
            if len((one := open_ones[key]).token_ids) < count
        ]
        if fitting and dice.random() < CONTINUED_SHARE:
            key = max(fitting)[1]
            one = open_ones.pop(key)
        else:
            key, tenant = next(numbers), dice.randrange(TENANT_COUNT)
            one = Conversation(f"tenant {tenant}", (tenant,) * min(SYSTEM_TOKENS, count), arrival.time)
        prompt = one.token_ids + _fresh(count - len(one.token_ids), dice)
        yield Turn(arrival.time, Prompt(prompt, one.tenant), key)
        answered = prompt + _fresh(arrival.output_token_count, dice)
        if len(answered) < MAX_TOKENS:
            open_ones[key] = Conversation(one.tenant, answered, arrival.time)
        for idle in list(open_ones):
            if open_ones[idle].time > arrival.time - IDLE_SECONDS and len(open_ones) <= MAX_OPEN:
                break
            del open_ones[idle]


def _fresh(count: int, dice: random.Random) -> tuple[int, ...]:
    """Returns a run of tokens that no other prompt has: consecutive ids from a place of its own."""
    start = dice.randrange(1 << 29)
    return tuple(range(start, start + count))
