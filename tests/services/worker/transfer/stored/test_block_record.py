"""Blocks of the store: what is used is what was put there under that name, or nothing, whatever the store gives."""

import os
import random
from collections.abc import Callable

import pytest

from headrace.kv.block_hash import hash_blocks
from headrace.worker.transfer.kept.slot_header import HEADER_BYTES, SlotHeader
from headrace.worker.transfer.stored.block_record import content_of, record_of

FAULTS = int(os.environ.get("HEADRACE_KV_FAULTS", "24000"))
LAYOUT, SIZE, COUNT, BLOCK_SIZE = "0123456789abcdef", 96, 16, 16


def names_of(salt: str = "a", adapter: str = "", first: int = 0) -> list[bytes]:
    tokens = [first + place for place in range(COUNT * BLOCK_SIZE)]
    return hash_blocks(tokens, BLOCK_SIZE, salt, adapter)


def content(number: int) -> bytes:
    return random.Random(number).randbytes(SIZE)


NAMES = names_of()
RECORDS = [record_of(name, content(number), LAYOUT) for number, name in enumerate(NAMES)]


def flip(record: bytes, dice: random.Random) -> bytes:
    changed = bytearray(record)
    for _ in range(dice.randrange(1, 4)):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(record: bytes, dice: random.Random) -> bytes:
    return record[: dice.randrange(len(record))]


def grow(record: bytes, dice: random.Random) -> bytes:
    return record + dice.randbytes(dice.randrange(1, 9))


def swap(record: bytes, dice: random.Random) -> bytes:
    """The record of another block, or its content under this one's header, or the other way round."""
    other = dice.choice(RECORDS)
    place = dice.choice((0, HEADER_BYTES))
    return dice.choice((record[:place] + other[place:], other[:HEADER_BYTES] + record[HEADER_BYTES:]))


def tear(record: bytes, dice: random.Random) -> bytes:
    """The end is that of another block."""
    place = dice.randrange(len(record))
    return record[:place] + dice.choice(RECORDS)[place:]


@pytest.mark.parametrize("fault", [flip, cut, grow, swap, tear])
def test_no_fault_makes_another_block(fault: Callable[[bytes, random.Random], bytes]) -> None:
    dice, refused = random.Random(5), 0
    for _ in range(FAULTS // 5):
        number = dice.randrange(COUNT)
        found = content_of(fault(RECORDS[number], dice), NAMES[number], LAYOUT)
        assert found in (None, content(number))
        refused += found is None
    assert refused > FAULTS // 5 // 2


@pytest.mark.parametrize(
    ("names", "layout"),
    [(names_of("b"), LAYOUT), (names_of(adapter="b"), LAYOUT), (names_of(first=1), LAYOUT), (NAMES, LAYOUT[::-1])],
    ids=["a tenant", "an adapter", "a prompt", "other weights"],
)
def test_a_block_of_another_is_a_miss(names: list[bytes], layout: str) -> None:
    assert [content_of(record, name, LAYOUT) for record, name in zip(RECORDS, NAMES, strict=True)] == [
        content(number) for number in range(COUNT)
    ]
    assert not any(content_of(record, name, layout) for record in RECORDS for name in names)


def test_a_planted_fault_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, a swap gives another's block: the test above would see it."""
    monkeypatch.setattr(SlotHeader, "fits", lambda *_: True)
    dice = random.Random(2)
    assert any(content_of(swap(RECORDS[0], dice), NAMES[0], LAYOUT) not in (None, content(0)) for _ in range(200))
