"""Leases keep blocks while nobody needs the memory, and the counts hold whatever happens."""

import random

from tests.libs.engine.batching.test_batcher import BLOCK_SIZE, make_batcher, take_step
from tests.libs.engine.engine_running import request

from headrace.engine.batching.batcher import Batcher
from headrace.engine.kv.block_lease import BlockLease
from headrace.kv.block_hash import hash_blocks

PROMPT = range(1, 1 + 6 * BLOCK_SIZE)
HASHES = hash_blocks(PROMPT, BLOCK_SIZE, "")


def finish(batcher: Batcher) -> None:
    for _ in range(500):
        if not batcher.has_work():
            return
        take_step(batcher)
        batcher.check_invariants()
    raise AssertionError("the batcher does not come to an end")


def test_leased_blocks_are_not_reused_while_there_are_others() -> None:
    batcher = make_batcher(block_count=12)
    batcher.add(request("first", PROMPT, max_tokens=1))
    finish(batcher)
    lease = batcher.leases.take(HASHES)
    assert len(lease) == 6
    batcher.add(request("second", range(40, 40 + 4 * BLOCK_SIZE), max_tokens=4))
    finish(batcher)
    assert batcher.leases.is_sound(lease)
    batcher.leases.release(lease)
    batcher.leases.release(lease)
    assert batcher.pool.used_count == 0
    batcher.check_invariants()


def test_a_request_that_needs_the_memory_ends_leases_and_preempts_nobody() -> None:
    batcher = make_batcher(block_count=12)
    batcher.add(request("first", PROMPT, max_tokens=1))
    finish(batcher)
    lease = batcher.leases.take(HASHES)
    batcher.add(request("large", range(40, 40 + 9 * BLOCK_SIZE), max_tokens=8))
    finish(batcher)
    assert not batcher.leases.is_sound(lease)
    assert batcher.stats().preemption_count == 0


def test_a_running_request_that_grows_ends_leases() -> None:
    batcher = make_batcher(block_count=12)
    batcher.add(request("grows", range(40, 40 + 2 * BLOCK_SIZE), max_tokens=8 * BLOCK_SIZE))
    take_step(batcher)
    lease, added = batcher.leases.fill(HASHES)
    assert added == list(range(6))
    finish(batcher)
    assert not lease.is_held
    assert batcher.stats().preemption_count == 0


def test_blocks_whose_content_is_not_to_be_trusted_are_noticed() -> None:
    batcher = make_batcher()
    lease, _ = batcher.leases.fill(HASHES)
    batcher.pool.forget(lease.blocks[2:3])
    assert lease.is_held
    assert not batcher.leases.is_sound(lease)


def test_a_lease_ends_where_the_free_blocks_end() -> None:
    batcher = make_batcher(block_count=4)
    lease, added = batcher.leases.fill(HASHES)
    assert (lease.hashes, added) == (tuple(HASHES[:4]), [0, 1, 2, 3])
    again, added = batcher.leases.fill(HASHES)
    assert (again.blocks, added) == (lease.blocks, [])
    batcher.check_invariants()


def test_counts_hold_after_any_operations() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        batcher = make_batcher(block_count=chance.randint(8, 24), budget=16, running=4)
        leases: list[BlockLease] = []
        for number in range(80):
            start = chance.randint(1, 3)
            tokens = range(start, start + chance.randint(1, 6 * BLOCK_SIZE))
            match chance.choice(["add", "take", "fill", "release", "cancel", "step", "step", "evacuate"]):
                case "add":
                    batcher.add(request(str(number), tokens, max_tokens=chance.randint(0, 8)))
                case "take":
                    leases.append(batcher.leases.take(hash_blocks(tokens, BLOCK_SIZE, "")))
                case "fill":
                    leases.append(batcher.leases.fill(hash_blocks(tokens, BLOCK_SIZE, ""))[0])
                case "release" if leases:
                    batcher.leases.release(leases.pop(chance.randrange(len(leases))))
                case "cancel":
                    batcher.cancel(str(chance.randint(0, 80)))
                case "evacuate":
                    batcher.evacuate()
                case _:
                    take_step(batcher)
            batcher.check_invariants()
        finish(batcher)
        for lease in leases:
            batcher.leases.release(lease)
        batcher.check_invariants()
        assert batcher.pool.used_count == 0
