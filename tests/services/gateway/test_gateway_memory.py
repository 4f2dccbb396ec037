"""A gateway in a process of its own stays small, whatever clients send at the same time."""

import asyncio
import contextlib
import multiprocessing
import multiprocessing.connection
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.gateway.served_bridge import PATIENCE, body_of, post, serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of the memory from /proc"),
]
MAX_RESIDENT_BYTES = 300 * 1024 * 1024
START_SECONDS = 60.0


def serve(connection: "multiprocessing.connection.Connection[int, None]") -> None:
    """Serves until the other end of the connection is closed."""

    async def run() -> None:
        async with serving(max_body_bytes=8 * 1024 * 1024) as gateway:
            connection.send(gateway.port)
            with contextlib.suppress(EOFError):
                await asyncio.to_thread(connection.recv)

    asyncio.run(run())


@contextlib.contextmanager
def gateway_apart() -> Iterator[tuple[int, int]]:
    """Yields the port and the process id."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(START_SECONDS), "the gateway did not start"
        assert process.pid is not None
        yield ours.recv(), process.pid
    finally:
        ours.close()
        process.join(PATIENCE)
        process.kill()
        process.join()


def peak_resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024


async def test_many_large_bodies_at_once_do_not_fill_the_memory() -> None:
    bodies = [
        body_of(prompt="a" * 8_000_000),
        body_of(prompt=[100_000] * 400_000),
        body_of(prompt=["a"] * 400_000),
        body_of(**{f"n{number}": [] for number in range(19_000)}),
        body_of(x=[None] * 1_600_000),
    ]
    with gateway_apart() as (port, pid):
        for _ in range(2):
            answers = await asyncio.gather(*(post("127.0.0.1", port, body) for body in bodies for _ in range(10)))
            assert {status for status, _ in answers} <= {200, 400, 413, 503}
        assert (await post("127.0.0.1", port, body_of()))[0] == 200
        assert peak_resident_bytes(pid) < MAX_RESIDENT_BYTES
