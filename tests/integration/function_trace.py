"""Functions of Headrace that a piece of work enters, on every thread of this process."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

PACKAGE = "/headrace/"
GENERATED = "v1/"


class FunctionTrace:
    """Notes, while `watching`, each function entered: its file below `headrace/`, and its name with that of its class.

    Covers the calling thread and all threads started after this object.
    """

    def __init__(self) -> None:
        self.entered: set[tuple[str, str]] = set()
        self._is_watching = False
        threading.setprofile(self._note)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notes what is entered until the end of the block."""
        self._is_watching = True
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._is_watching = False

    def close(self) -> None:
        """Leaves threads that begin later alone."""
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if self._is_watching and event == "call" and PACKAGE in code.co_filename and not code.co_name.startswith("<"):
            place = code.co_filename.rpartition(PACKAGE)[2]
            if not place.startswith(GENERATED):
                self.entered.add((place, code.co_qualname))
