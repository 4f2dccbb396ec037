"""Changes of the prefix cache are numbered, small enough to travel, and add up to the list of blocks."""

from headrace.engine.contract.request import BlockEvents
from headrace.kv.block_change import BlockChange
from headrace.worker.status.block_log import MAX_HASHES, BlockLog
from headrace.worker.status.translation import to_blocks_changed, to_responses

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
NATS_MAX_PAYLOAD = 1024 * 1024
HEADER_BYTES = 1024


def numbers(changes: list[BlockChange]) -> list[int]:
    return [change.sequence_number for change in changes]


def listed(log: BlockLog) -> tuple[int, list[bytes]]:
    parts = list(to_responses(log.list_blocks()))
    assert len({part.sequence_number for part in parts}) == 1
    return parts[0].sequence_number, [block_hash for part in parts for block_hash in part.block_hashes]


def test_changes_are_numbered_from_one_and_a_quiet_worker_repeats_the_latest() -> None:
    log = BlockLog("w", 7, "m")
    assert numbers(log.take_changes("here")) == [0]
    log.collect(BlockEvents(stored=(A, B)))
    (first,) = log.take_changes("here")
    sent = to_blocks_changed(first)
    assert (sent.worker_id, sent.epoch, sent.model, sent.address) == ("w", 7, "m", "here")
    assert (sent.sequence_number, list(sent.stored_block_hashes)) == (1, [A, B])
    assert (first.sequence_number, list(first.stored_block_hashes)) == (1, [A, B])
    log.collect(BlockEvents(removed=(A,)))
    assert numbers(log.take_changes("here")) == [2]
    (quiet,) = log.take_changes("here")
    assert (quiet.sequence_number, list(quiet.stored_block_hashes), list(quiet.removed_block_hashes)) == (2, [], [])


def test_a_block_that_came_and_went_is_not_told_to_be_there() -> None:
    log = BlockLog("w", 7, "m")
    log.collect(BlockEvents(stored=(A, B)))
    log.collect(BlockEvents(removed=(A,)))
    (change,) = log.take_changes("here")
    assert (list(change.stored_block_hashes), list(change.removed_block_hashes)) == ([B], [])
    log.collect(BlockEvents(removed=(B,)))
    log.collect(BlockEvents(stored=(B,)))
    assert not log.pending
    assert listed(log) == (1, [B])


def test_a_burst_is_split_into_messages_that_nats_carries() -> None:
    log = BlockLog("w", 7, "m")
    hashes = [number.to_bytes(16, "big") for number in range(3 * MAX_HASHES + 1)]
    log.collect(BlockEvents(stored=tuple(hashes)))
    changes = log.take_changes("an.address.of.some.length:50051")
    assert numbers(changes) == [1, 2, 3, 4]
    assert max(to_blocks_changed(change).ByteSize() for change in changes) + HEADER_BYTES < NATS_MAX_PAYLOAD
    assert [block_hash for change in changes for block_hash in change.stored_block_hashes] == hashes
    log.collect(BlockEvents(stored=(C,), removed=tuple(hashes)))
    changes = log.take_changes("here")
    assert numbers(changes) == [5, 6, 7, 8, 9]
    assert list(changes[-1].stored_block_hashes) == [C]
    assert not any(change.stored_block_hashes for change in changes[:-1])


def test_the_list_is_of_one_moment_however_late_it_is_read() -> None:
    log = BlockLog("w", 7, "m")
    hashes = [number.to_bytes(16, "big") for number in range(MAX_HASHES + 1)]
    log.collect(BlockEvents(stored=tuple(hashes)))
    log.take_changes("here")
    late = log.list_blocks()
    log.collect(BlockEvents(stored=(A,), removed=(hashes[0],)))
    assert listed(log)[0] == 2
    log.take_changes("here")
    parts = list(to_responses(late))
    assert [part.sequence_number for part in parts] == [2, 2]
    assert [block_hash for part in parts for block_hash in part.block_hashes] == hashes
    assert listed(log) == (3, [*hashes[1:], A])


def test_the_list_of_a_worker_without_blocks_is_one_empty_part() -> None:
    (part,) = to_responses(BlockLog("w", 7, "m").list_blocks())
    assert (part.worker_id, part.epoch, part.model, part.sequence_number) == ("w", 7, "m", 0)
    assert list(part.block_hashes) == []
