"""Works on texts in separate processes, so that the event loop never waits for them, and one that hangs can be
ended."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, TypeVarTuple

from headrace.domain.encoded import Encoded
from headrace.domain.to_encode import ToEncode
from headrace.errors import Overloaded
from headrace.tokenizer.processes import text_jobs
from headrace.tokenizer.processes.text_process import TextProcess
from headrace.tokenizer.text_source import TextSource

MAX_WAITING_JOBS = 1024
MAX_WAITING_CHARACTERS = 64 * 1024 * 1024
RETRY_SECONDS = 1.0

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class TextPool:
    """Hands each job to an idle process. Cancelling a call does not stop a job that runs already: it ends when it is
    done or at its time limit."""

    def __init__(
        self, sources: Mapping[str, TextSource], size: int, template_seconds: float, job_seconds: float
    ) -> None:
        """`template_seconds`: processor time for one rendering; `job_seconds`: time for any one job."""
        self._template_seconds = template_seconds
        self._processes = [TextProcess(sources, job_seconds) for _ in range(size)]
        # Last in, first out, so that a process that is never needed is never started.
        self._idle: asyncio.LifoQueue[TextProcess] = asyncio.LifoQueue()
        for process in reversed(self._processes):
            self._idle.put_nowait(process)
        # One model whose jobs take long leaves a process to the others.
        share = size if len(sources) == 1 else max(1, size - 1)
        self._shares = {name: asyncio.Semaphore(share) for name in sources}
        self._waiting_jobs = 0
        self._waiting_characters = 0
        self._running: set[asyncio.Task[object]] = set()
        self._processes[0].start()

    async def encode(self, wanted: ToEncode) -> Encoded:
        """Encodes a text or a conversation. Raises InvalidRequest, Overloaded and Unavailable, as `decode` does."""
        return await self._run(wanted.model, wanted.character_count, text_jobs.encode, wanted, self._template_seconds)

    async def decode(self, model: str, token_ids: Sequence[int], skip_special_tokens: bool) -> str:
        """Returns the text of token ids."""
        return await self._run(model, len(token_ids), text_jobs.decode, model, token_ids, skip_special_tokens)

    def close(self) -> None:
        """Ends the processes and the jobs that wait for them."""
        for task in self._running:
            task.cancel()
        for process in self._processes:
            process.end()

    async def _run(self, model: str, size: int, job: Callable[[*Ts], T], *args: *Ts) -> T:
        share = self._shares[model]
        process = await self._next_idle(share, size)
        running = asyncio.create_task(self._finish(share, process, job, *args))
        self._running.add(running)
        running.add_done_callback(self._forget)
        return await asyncio.shield(running)

    async def _next_idle(self, share: asyncio.Semaphore, size: int) -> TextProcess:
        too_much = self._waiting_characters + size > MAX_WAITING_CHARACTERS and self._waiting_jobs
        if (self._idle.empty() or share.locked()) and (self._waiting_jobs >= MAX_WAITING_JOBS or too_much):
            raise Overloaded(
                f"{self._waiting_jobs} texts wait for the tokenizer already: send this one again later",
                stage="tokenize",
                retry_after=RETRY_SECONDS,
            )
        self._waiting_jobs += 1
        self._waiting_characters += size
        try:
            await share.acquire()
            try:
                return await self._idle.get()
            except BaseException:
                share.release()
                raise
        finally:
            self._waiting_jobs -= 1
            self._waiting_characters -= size

    async def _finish(self, share: asyncio.Semaphore, process: TextProcess, job: Callable[[*Ts], T], *args: *Ts) -> T:
        try:
            return await process.do_job(job, *args)
        finally:
            self._idle.put_nowait(process)
            share.release()

    def _forget(self, task: "asyncio.Task[object]") -> None:
        self._running.discard(task)
        # The caller may be gone, and an exception that is never retrieved would be logged.
        if not task.cancelled():
            task.exception()
