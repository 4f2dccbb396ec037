"""A gateway in a process of its own stays small, whatever clients send at the same time."""

import asyncio
import contextlib
import multiprocessing
import multiprocessing.connection
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.gateway.served_bridge import PATIENCE, body_of, post, serving

pytestmark = pytest.mark.anyio
MAX_RESIDENT_BYTES = 300 * 1024 * 1024
START_SECONDS = 60.0


def peak_resident_bytes() -> int:
    """Most memory that this process ever had. Not ru_maxrss where it can be helped: that counts the parent's too, which
    was copied before this program began."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def serve(connection: "multiprocessing.connection.Connection[int, str]") -> None:
    """Sends its port, and for each message the most memory that it ever had. Serves until the other end is closed."""

    async def run() -> None:
        async with serving(max_body_bytes=8 * 1024 * 1024) as gateway:
            connection.send(gateway.port)
            with contextlib.suppress(EOFError):
                while True:
                    await asyncio.to_thread(connection.recv)
                    connection.send(peak_resident_bytes())

    asyncio.run(run())


@contextlib.contextmanager
def gateway_apart() -> "Iterator[tuple[int, multiprocessing.connection.Connection[str, int]]]":
    """Yields the port, and the connection over which the gateway says how large it was."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(START_SECONDS), "the gateway did not start"
        yield ours.recv(), ours
    finally:
        ours.close()
        process.join(PATIENCE)
        process.kill()
        process.join()


@pytest.mark.process
async def test_many_large_bodies_at_once_do_not_fill_the_memory() -> None:
    bodies = [
        body_of(prompt="a" * 8_000_000),
        body_of(prompt=[100_000] * 400_000),
        body_of(prompt=["a"] * 400_000),
        body_of(**{f"n{number}": [] for number in range(19_000)}),
        body_of(x=[None] * 1_600_000),
    ]
    with gateway_apart() as (port, connection):
        posts = [post("127.0.0.1", port, body) for body in bodies for _ in range(8)]
        answers = await asyncio.gather(*posts, return_exceptions=True)
        statuses = {answer[0] for answer in answers if not isinstance(answer, BaseException)}
        assert statuses <= {200, 400, 413, 503}
        # Whoever still sends a while after it was refused is cut off, which on a busy machine may be some.
        others = [answer for answer in answers if isinstance(answer, BaseException)]
        assert all(isinstance(error, ConnectionError | EOFError | TimeoutError) for error in others)
        assert len(others) < len(answers)
        assert (await post("127.0.0.1", port, body_of()))[0] == 200
        connection.send("how large?")
        assert connection.poll(PATIENCE)
        assert connection.recv() < MAX_RESIDENT_BYTES
