"""Faults of clients: those that go away at every stage, and those that do not read."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from tests.faults.asking import Question, request_bytes
from tests.faults.fault import Fault, Promise, Scene
from tests.faults.questions import completion, long_prompt, short_output, stream
from tests.faults.shapes import CROWDED, PLAYED

LEAVING = 150
"""Clients that go away, one shortly after the other."""
SILENT = 30
SILENT_SECONDS = 2.0
"""The deadline of requests whose answer nobody reads."""
RECEIVE_BYTES = 4096
"""Receive buffer so small that an unread stream is soon stuck."""


async def leave(scene: Scene) -> None:
    """Asks and goes away: in the middle of the request, in the queue, in prefill, while decoding or flushing."""
    scene.mark()
    leaving = []
    for _ in range(LEAVING):
        leaving.append(asyncio.create_task(_ask_and_leave(scene)))
        await scene.pause(0.03)
    await asyncio.gather(*leaving)


async def do_not_read(scene: Scene) -> None:
    """Asks for long streams and reads none of them until well after their deadline."""
    scene.mark()
    question = completion("unread", scene.chance, 8, 3000, stream=True, n=4)
    content = request_bytes("unread", question, SILENT_SECONDS)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(SILENT):
            await stack.enter_async_context(_sent(scene, content))
        await scene.pause(3 * SILENT_SECONDS)
        scene.mark()


async def _ask_and_leave(scene: Scene) -> None:
    chance = scene.chance
    question: Question = chance.choice([stream, long_prompt, short_output])(chance)
    content = request_bytes("leaving", question)
    if chance.random() < 0.2:
        content = content[: chance.randrange(len(content))]
    patience = chance.choice([0.001, 0.01, 0.05, 0.2, 0.5])
    async with _sent(scene, content) as reader:
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(patience):
                while await asyncio.get_running_loop().sock_recv(reader, RECEIVE_BYTES):
                    pass


@contextlib.asynccontextmanager
async def _sent(scene: Scene, content: bytes) -> AsyncIterator[socket.socket]:
    """A connection over which a request was sent. Nothing reads it but who asks for it."""
    parts = urlsplit(scene.platform.http)
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        await loop.sock_connect(connection, (parts.hostname, parts.port))
        with contextlib.suppress(OSError):
            await loop.sock_sendall(connection, content)
        yield connection


FAULTS = [
    Fault("clients go away at every stage", PLAYED, leave, Promise(stall=1.0)),
    Fault("clients do not read", PLAYED, do_not_read, Promise(stall=1.0, recovery=None)),
    Fault("clients go away, most in the queue", CROWDED, leave, Promise(recovery=None)),
]
