"""Blocks on their way between workers: what is taken is what was sent under that name, or nothing."""

import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.kv.block_hash import hash_blocks
from headrace.worker.transfer.block_packet import BlockPacket

FAULTS = int(os.environ.get("HEADRACE_KV_FAULTS", "24000"))
SIZE, COUNT, BLOCK_SIZE = 96, 4, 16


def names_of(number: int, salt: str = "a", adapter: str = "") -> list[bytes]:
    """Names of the blocks of a prompt, which no other prompt, tenant or adapter has."""
    return hash_blocks([number + place for place in range(COUNT * BLOCK_SIZE)], BLOCK_SIZE, salt, adapter)


def packet_of(number: int, names: list[bytes]) -> BlockPacket:
    return BlockPacket.of(0, names, [random.Random(number + place).randbytes(SIZE) for place in range(COUNT)])


def flip(packet: BlockPacket, dice: random.Random) -> BlockPacket:
    contents = [bytearray(content) for content in packet.contents]
    for _ in range(dice.randrange(1, 4)):
        contents[dice.randrange(COUNT)][dice.randrange(SIZE)] ^= 1 << dice.randrange(8)
    return replace(packet, contents=[bytes(content) for content in contents])


def cut(packet: BlockPacket, dice: random.Random) -> BlockPacket:
    contents = list(packet.contents)
    place = dice.randrange(COUNT)
    contents[place] = contents[place][: dice.randrange(SIZE)]
    return replace(packet, contents=contents)


def swap(packet: BlockPacket, dice: random.Random) -> BlockPacket:
    first, second = dice.sample(range(COUNT), 2)
    contents = list(packet.contents)
    contents[first], contents[second] = contents[second], contents[first]
    checksums = list(packet.checksums)
    if dice.random() < 0.5:
        checksums[first], checksums[second] = checksums[second], checksums[first]
    return replace(packet, contents=contents, checksums=checksums)


def lose(packet: BlockPacket, dice: random.Random) -> BlockPacket:
    place = dice.randrange(COUNT)
    contents = [each for at, each in enumerate(packet.contents) if at != place]
    return replace(
        packet, contents=contents, checksums=[each for at, each in enumerate(packet.checksums) if at != place]
    )


@pytest.mark.parametrize("fault", [flip, cut, swap, lose])
def test_no_fault_of_a_packet_is_taken(fault: Callable[[BlockPacket, random.Random], BlockPacket]) -> None:
    dice, names = random.Random(3), names_of(0)
    packet = packet_of(0, names)
    assert packet.is_intact(names)
    for _ in range(FAULTS // 4):
        damaged = fault(packet, dice)
        count = len(damaged.contents)
        assert damaged.contents == packet.contents[:count] or not damaged.is_intact(names[:count])


@pytest.mark.parametrize(
    "names", [names_of(0, salt="b"), names_of(0, adapter="b"), names_of(1)], ids=["a tenant", "an adapter", "a prompt"]
)
def test_blocks_of_another_are_not_taken(names: list[bytes]) -> None:
    packet = packet_of(0, names_of(0))
    assert not packet.is_intact(names)
    assert not any(name in names for name in names_of(0))
