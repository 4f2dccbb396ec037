"""The heap tells what lies free in it."""

from headrace.engine.memory.heap import free_heap_bytes


def test_what_is_freed_between_used_blocks_is_counted() -> None:
    held = [bytearray(8192) for _ in range(4000)]
    before = free_heap_bytes()
    del held[::2]
    assert free_heap_bytes() - before > 8_000_000
