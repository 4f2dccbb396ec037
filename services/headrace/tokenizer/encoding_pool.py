"""Encodes long texts in processes of their own, so that nobody's event loop waits for them."""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from headrace.errors import Unavailable
from headrace.tokenizer.text_model import TextModel

_PR_SET_PDEATHSIG = 1
_models: dict[str, TextModel] = {}


class EncodingPool:
    """A process pool that is made anew when one of its processes dies."""

    def __init__(self, folders: Mapping[str, Path], size: int) -> None:
        self._folders = dict(folders)
        self._size = size
        self._executor = self._start()

    async def encode(
        self, model: str, text: str, add_special_tokens: bool, max_token_count: int | None = None
    ) -> list[int]:
        """The token ids. Raises Unavailable when the pool died twice over the same text."""
        for _ in range(2):
            executor = self._executor
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    executor, _encode, model, text, add_special_tokens, max_token_count
                )
            except BrokenProcessPool:
                if executor is self._executor:
                    self._executor = self._start()
        raise Unavailable("the encoding process died", stage="tokenize")

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        for process in list((self._executor._processes or {}).values()):
            process.terminate()

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        executor = ProcessPoolExecutor(self._size, context, _prepare, (self._folders, os.getpid()))
        executor.submit(os.getpid)
        return executor


def _prepare(folders: Mapping[str, Path], parent: int) -> None:
    """Loads the tokenizers, and ties this process's life to the service: a killed service leaves no orphan."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    _models.update({name: TextModel(name, folder) for name, folder in folders.items()})


def _encode(model: str, text: str, add_special_tokens: bool, max_token_count: int | None) -> list[int]:
    return _models[model].encode(text, add_special_tokens, max_token_count)
