"""A process that does one job after the other, and is ended and started anew when one goes on for too long."""

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import ParamSpec, TypeVar

from headrace.errors import InvalidRequest, Unavailable
from headrace.tokenizer import text_jobs

P = ParamSpec("P")
T = TypeVar("T")


class TextProcess:
    """Started with its first job. Takes one job at a time."""

    def __init__(self, folders: Mapping[str, Path], job_seconds: float) -> None:
        self._folders = dict(folders)
        self._job_seconds = job_seconds
        self._executor: ProcessPoolExecutor | None = None

    async def run(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the job returns. Raises InvalidRequest when it goes on for too long, and Unavailable when the process
        dies of it twice. Is not to be cancelled: the process would go on."""
        for _ in range(2):
            try:
                future = self.start().submit(job, *args, **kwargs)
                async with asyncio.timeout(self._job_seconds):
                    return await asyncio.wrap_future(future)
            except BrokenProcessPool:
                self.end()
            except TimeoutError:
                self.end()
                raise InvalidRequest(
                    f"the text took more than {self._job_seconds:g} s, the limit of the setting tokenizer.job_seconds: "
                    "shorten it"
                ) from None
        raise Unavailable("the process that works on texts died", stage="tokenize")

    def start(self) -> ProcessPoolExecutor:
        """Makes sure that there is a process, which takes a moment to load its models."""
        if self._executor is None:
            context = multiprocessing.get_context("spawn")
            arguments = (self._folders, os.getpid())
            self._executor = ProcessPoolExecutor(1, context, text_jobs.prepare, arguments)
            self._executor.submit(os.getpid)
        return self._executor

    def end(self) -> None:
        """Kills the process, whatever it is at."""
        executor, self._executor = self._executor, None
        if executor is not None:
            processes = list((executor._processes or {}).values())
            executor.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()
