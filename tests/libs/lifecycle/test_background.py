"""A task that a service cannot do without ends the process when it fails, with the reason, and nothing else does."""

import asyncio
import subprocess
import sys

import pytest

from headrace.lifecycle import Background

pytestmark = pytest.mark.anyio

LIFE = """
import asyncio, contextlib, struct, sys
from headrace.bus.memory_bus import MemoryBus
from headrace.lifecycle import Background, Service, ServiceSettings, run
from headrace.lifecycle.announcer import Announcer

MODE = sys.argv[1]

async def fail(*_):
    await asyncio.sleep(0.05)
    raise struct.error("argument out of range")

if MODE == "announcer":
    Announcer._announce = fail

@contextlib.asynccontextmanager
async def open_app(settings):
    background = Background()
    over = asyncio.Event()
    if MODE == "over":
        over.set()
    elif MODE != "announcer":
        background.start(fail(), "dispatch-m")
    yield Service("cache", MemoryBus(), lambda server: None, [], 1, over=over, background=background)
    await background.close()
    print("closed", flush=True)
    if MODE == "stuck":
        await asyncio.Event().wait()

sys.argv = ["test", "--service-id", "test", "--drain-seconds", "0.2"]
run("cache", ServiceSettings, open_app)
"""


def live(mode: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", LIFE, mode]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.process
@pytest.mark.parametrize(("mode", "name"), [("task", "dispatch-m"), ("announcer", "announcer")])
def test_the_process_ends_with_the_reason(mode: str, name: str) -> None:
    done = live(mode)
    assert done.returncode == 70, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"headrace cache: the task {name} failed with error('argument out of range')")
    assert "closed" in done.stdout


@pytest.mark.process
def test_a_service_that_has_nothing_to_do_any_more_ends_as_after_a_signal() -> None:
    done = live("over")
    assert (done.returncode, "closed" in done.stdout) == (0, True), done.stderr


@pytest.mark.process
def test_what_cannot_be_closed_does_not_keep_the_process() -> None:
    done = live("stuck")
    assert done.returncode == 70, done.stderr
    assert "argument out of range" in done.stderr


async def test_tasks_that_end_or_are_cancelled_are_no_failure() -> None:
    background = Background()
    failing = asyncio.create_task(background.failure())

    async def end() -> None:
        return

    background.start(end(), "ends")
    background.start(asyncio.Event().wait(), "waits").cancel()
    staying = background.start(asyncio.Event().wait(), "stays")
    await asyncio.sleep(0.01)
    assert not failing.done()
    await background.close()
    assert staying.cancelled()
    assert not failing.done()
    failing.cancel()


async def test_the_first_failure_is_the_reason() -> None:
    background = Background()

    async def fail(seconds: float, error: Exception) -> None:
        await asyncio.sleep(seconds)
        raise error

    background.start(fail(0.01, ValueError("first")), "a")
    background.start(fail(0.02, ValueError("second")), "b")
    failure = await asyncio.wait_for(background.failure(), 5)
    await asyncio.sleep(0.05)
    assert "the task a failed with ValueError('first')" in (await background.failure()).message
    assert failure is await background.failure()


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    background = Background()
    swallowed = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        await asyncio.Event().wait()

    task = background.start(stubborn(), "stubborn")
    await asyncio.sleep(0)
    await asyncio.wait_for(background.close(), 5)
    assert swallowed.is_set()
    assert task.cancelled()
