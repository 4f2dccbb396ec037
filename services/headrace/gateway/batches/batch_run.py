"""One batch, run by this gateway: from where it stands to its end."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from headrace.gateway.batches.lines.batch_input import BatchInput, BatchLine
from headrace.gateway.batches.lines.batch_output import BatchOutput
from headrace.gateway.batches.lines.line_answer import answered
from headrace.gateway.batches.lines.line_caller import LineCaller
from headrace.gateway.batches.lines.result_log import OK, ResultLog, opened_log, read_results
from headrace.gateway.batches.lines.retry_pause import RATE_LIMITED, retry_pause
from headrace.gateway.batches.storage.batch_record import BatchRecord, BatchStatus
from headrace.gateway.batches.storage.batch_store import INPUT, LeaseLost
from headrace.gateway.batches.storage.disk import held_on_disk, on_disk
from headrace.gateway.batches.storage.shared_folder import SharedFolder
from headrace.gateway.config import GatewaySettings
from headrace.lifecycle.cancel_and_wait import cancel_and_wait

LOOK_SECONDS = 0.5
"""Seconds between looks at whether the batch was cancelled, through whichever gateway."""

GIVE_UP_SECONDS = 2.0
"""Seconds that all requests of a batch must be going to wait for it to be given up meanwhile."""
SPARE_SECONDS = 1.0
"""Seconds that requests may take longer than the batch, so that its end is what they end with."""


@dataclass(slots=True)
class _Tally:
    completed: int = 0
    failed: int = 0


class BatchWaits(Exception):
    """Nothing of a batch can be done for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing of the batch can be done for {seconds:g} s")
        self.seconds = seconds


class BatchRun:
    """Checks the input, answers its lines, and writes the output, under a lease."""

    def __init__(
        self,
        batch: BatchRecord,
        folder: SharedFolder,
        caller: LineCaller,
        settings: GatewaySettings,
        holds: Callable[[], bool],
    ) -> None:
        """`holds`: whether this gateway has the lease still."""
        self._batch = batch
        self._batches = folder.batches
        self._files = folder.files
        self._caller = caller
        self._settings = settings
        self._holds = holds
        self._folder = folder.batches.folder(batch.tenant, batch.id)
        limits = settings.batch_max_lines, settings.max_body_bytes
        self._input = BatchInput(self._folder / INPUT, batch.endpoint, *limits)
        self._done = set[str]()
        self._tally = _Tally()
        self._lines: Iterator[BatchLine] = iter(())
        self._reading = asyncio.Lock()
        self._not_before = 0.0
        """Time before which the limits of the key allow no further request. Monotonic seconds."""
        self._is_over = False
        """Whether no further request is sent. A call that ends as it is cancelled may hide that from its task."""
        self._rests: dict[asyncio.Task[None] | None, float] = {}
        """Times until which tasks that answer wait, in monotonic seconds."""

    async def run(self, fence: int) -> None:
        """Runs the batch to its end. Raises LeaseLost, OSError, and BatchWaits when it would do nothing but wait."""
        self._batch.fence = fence
        if BatchStatus.IN_PROGRESS in self._batch.times:
            # Announces the fence, so that the previous runner can no longer write.
            await self._save()
        elif not await self._validate():
            return
        async with held_on_disk(partial(opened_log, self._folder, fence)) as log:
            await on_disk(self._read_done)
            ending = await self._answer_until_end(log)
        await self._end(ending)

    async def _validate(self) -> bool:
        """Checks the input. Returns whether there is something to run."""
        report = await on_disk(self._input.check)
        self._batch.model, self._batch.errors = report.model, report.errors
        if report.errors:
            self._enter(BatchStatus.FAILED)
            self._check_lease()
            await on_disk(self._batches.close, self._batch)
            return False
        self._batch.total_count = report.line_count
        self._enter(BatchStatus.IN_PROGRESS)
        await self._save()
        return True

    def _read_done(self) -> None:
        for result in read_results(self._folder):
            self._done.add(result.custom_id)
            self._count(is_completed=result.is_completed)

    async def _answer_until_end(self, log: ResultLog) -> BatchStatus:
        """Answers lines until there are no more, the batch is cancelled, or its time is up. Returns which."""
        self._lines = self._input.lines()
        count = self._settings.batch_concurrency
        answering = {asyncio.create_task(self._answer_lines(log)) for _ in range(count)}
        try:
            while True:
                ended, _ = await asyncio.wait(answering, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
                for task in ended:
                    task.result()
                if len(ended) == count:
                    return BatchStatus.COMPLETED
                if await on_disk(self._batches.cancelled_at, self._batch) is not None:
                    return BatchStatus.CANCELLED
                if time.time() >= self._batch.expires:
                    return BatchStatus.EXPIRED
                self._check_lease()
                await self._save_progress()
                self._check_rest(sum(not task.done() for task in answering))
        finally:
            self._is_over = True
            await cancel_and_wait(answering)

    def _check_rest(self, task_count: int) -> None:
        """Raises BatchWaits if all tasks rest for long: others can use the place of this batch."""
        seconds = min(self._rests.values(), default=0.0) - time.monotonic()
        if len(self._rests) == task_count and seconds > GIVE_UP_SECONDS:
            raise BatchWaits(min(seconds, self._batch.expires - time.time()))

    async def _rest(self, until: float) -> None:
        """Waits until a time in monotonic seconds."""
        task = asyncio.current_task()
        self._rests[task] = until
        try:
            await asyncio.sleep(max(0.0, until - time.monotonic()))
        finally:
            del self._rests[task]

    async def _answer_lines(self, log: ResultLog) -> None:
        while (line := await self._next_line()) is not None:
            await log.add(await self._answer(line))

    async def _next_line(self) -> BatchLine | None:
        async with self._reading:
            return await on_disk(self._read_line)

    def _read_line(self) -> BatchLine | None:
        return next((line for line in self._lines if line.custom_id not in self._done), None)

    async def _answer(self, line: BatchLine) -> dict[str, object]:
        """Sends a request until its answer is final, and returns the line that tells it."""
        try_count = 0
        while True:
            if self._is_over:
                raise asyncio.CancelledError
            await self._rest(self._not_before)
            left = self._batch.expires - time.time()
            answer = await self._caller.call(self._batch, line, left + SPARE_SECONDS)
            if answer.status != OK and time.time() >= self._batch.expires:
                # The expiry check ends the batch: it is not the request that failed.
                await asyncio.Event().wait()
            pause = retry_pause(answer.status, answer.headers, try_count)
            if pause is None:
                self._count(is_completed=answer.status == OK)
                return answered(self._batch.id, line.custom_id, answer.status, answer.body)
            try_count += 1
            if answer.status == RATE_LIMITED:
                self._not_before = max(self._not_before, time.monotonic() + pause)
            else:
                await self._rest(time.monotonic() + pause)

    async def _end(self, ending: BatchStatus) -> None:
        cancelled_at = await on_disk(self._batches.cancelled_at, self._batch)
        if ending is BatchStatus.CANCELLED and cancelled_at is not None:
            self._batch.times[BatchStatus.CANCELLING] = cancelled_at
        else:
            self._enter(BatchStatus.FINALIZING)
            await self._save()
        output = BatchOutput(self._batch, self._folder, self._files, self._settings.file_seconds)
        await on_disk(output.write, self._input, ending)
        self._enter(ending)
        self._check_lease()
        await on_disk(self._batches.close, self._batch)

    def _enter(self, stage: BatchStatus) -> None:
        self._batch.status = stage
        self._batch.times[stage] = int(time.time())

    def _count(self, *, is_completed: bool) -> None:
        self._tally.completed += is_completed
        self._tally.failed += not is_completed

    async def _save_progress(self) -> None:
        told = self._batch.completed_count, self._batch.failed_count
        if told != (self._tally.completed, self._tally.failed):
            self._batch.completed_count, self._batch.failed_count = self._tally.completed, self._tally.failed
            await self._save()

    async def _save(self) -> None:
        self._check_lease()
        await on_disk(self._batches.put, self._batch)

    def _check_lease(self) -> None:
        if not self._holds():
            raise LeaseLost
