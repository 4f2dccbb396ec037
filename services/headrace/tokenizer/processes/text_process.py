"""A process that does one job at a time, and is replaced by a new one when a job takes too long."""

import asyncio
import multiprocessing
import os
import pickle
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar, TypeVarTuple

from headrace.errors import InvalidRequest
from headrace.tokenizer.processes import text_jobs
from headrace.tokenizer.text_source import TextSource

SMALL_BYTES = 32 * 1024
"""Messages up to this size fit in the pipe, so that writing and reading them takes no waiting. Others get a thread."""

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class TextProcess:
    """Process that starts with its first job. Takes one job at a time."""

    def __init__(self, sources: Mapping[str, TextSource], job_seconds: float) -> None:
        self._sources = dict(sources)
        self._job_seconds = job_seconds
        self._connection: Connection[bytes, Any] | None = None
        self.process: BaseProcess | None = None

    async def do_job(self, job: Callable[[*Ts], T], *args: *Ts) -> T:
        """Returns what the job returns. Raises what it raises, and InvalidRequest when it takes too long, or the
        process dies of it twice. Is not to be cancelled: the process would continue."""
        question = pickle.dumps((job, args))
        for _ in range(2):
            try:
                async with asyncio.timeout(self._job_seconds):
                    has_failed, answer = await self._ask(question)
            except TimeoutError:
                self.end()
                raise InvalidRequest(
                    f"the text took more than {self._job_seconds:g} s, the limit of the setting tokenizer.job_seconds: "
                    "shorten it"
                ) from None
            except (EOFError, OSError):
                self.end()
                continue
            if has_failed:
                raise answer
            result: T = answer
            return result
        raise InvalidRequest(
            "the tokenizer of this model fails on the text: the process that worked on it has ended twice"
        )

    def start(self) -> "Connection[bytes, Any]":
        """Starts the process if it is not running. It takes a moment to load its models."""
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            arguments = (theirs, self._sources, os.getpid())
            self.process = context.Process(target=text_jobs.serve, args=arguments, daemon=True)
            self.process.start()
            theirs.close()
        return self._connection

    def end(self) -> None:
        """Kills the process, whatever it is doing."""
        if self.process is not None:
            self.process.kill()
        if self._connection is not None:
            self._connection.close()
        self.process = self._connection = None

    async def _ask(self, question: bytes) -> tuple[bool, Any]:
        connection = self.start()
        if len(question) <= SMALL_BYTES:
            connection.send_bytes(question)
        else:
            await asyncio.to_thread(connection.send_bytes, question)
        await _until_readable(connection.fileno())
        size = int.from_bytes(connection.recv_bytes())
        if size <= SMALL_BYTES:
            return _answer(connection)
        return await asyncio.to_thread(_answer, connection)


def _answer(connection: "Connection[bytes, Any]") -> tuple[bool, Any]:
    answer: tuple[bool, Any] = pickle.loads(connection.recv_bytes())  # noqa: S301 - it comes from our own process
    return answer


async def _until_readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
    # uvloop leaves the descriptor non-blocking, in which case reading a message that is still arriving fails.
    os.set_blocking(descriptor, True)
