"""Asking a server for its health: at once, or for as long as it takes to connect."""

import asyncio
import socket

import grpc.aio
import pytest

from headrace.rpc.channel import open_channel
from headrace.rpc.health import is_serving
from headrace.rpc.server import Server

pytestmark = pytest.mark.anyio
CONNECT_SECONDS = 0.2
"""Least time that an attempt to connect has."""


def slow_listener() -> socket.socket:
    """Takes connections and says nothing, as a server of a machine that is too busy to."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def bind(_server: grpc.aio.Server) -> None:
    """Adds nothing to the server's health."""


async def test_an_attempt_to_connect_that_fails_is_a_no_at_once() -> None:
    with slow_listener() as listener:
        async with open_channel(f"127.0.0.1:{listener.getsockname()[1]}") as channel:
            async with asyncio.timeout(5):
                assert not await is_serving(channel, 60)


async def test_a_patient_question_outlives_attempts_that_fail() -> None:
    listener = slow_listener()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    server = Server(bind, [])
    async with open_channel(address) as channel:
        asked = asyncio.ensure_future(is_serving(channel, 30, patient=True))
        await asyncio.sleep(2 * CONNECT_SECONDS)
        assert not asked.done()
        listener.close()
        await server.start(address)
        await server.set_serving(True)
        assert await asked
    await server.stop(0)


async def test_a_patient_question_has_a_deadline() -> None:
    with slow_listener() as listener:
        async with open_channel(f"127.0.0.1:{listener.getsockname()[1]}") as channel:
            async with asyncio.timeout(10):
                assert not await is_serving(channel, 1.0, patient=True)


@pytest.mark.parametrize("patient", [False, True])
async def test_a_server_that_says_no_is_believed(patient: bool) -> None:
    server = Server(bind, [])
    async with open_channel(await server.start("127.0.0.1:0")) as channel:
        assert not await is_serving(channel, 30, patient=patient)
        await server.set_serving(True)
        assert await is_serving(channel, 30, patient=patient)
    await server.stop(0)
