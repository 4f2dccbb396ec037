"""The ledger of usage that one gateway writes: a file for each day, one line for each request."""

import logging
import os
import time
from datetime import date
from pathlib import Path

from prometheus_client import Counter

from headrace.access.usage_record import UsageRecord, to_line
from headrace.access.usage_report import day_of, file_name
from headrace.errors import ConfigError
from headrace.storage.private_files import close_all_to_others

MODE = 0o600
USAGE_LOST = Counter("headrace_usage_records_lost", "Records of usage that could not be written")

_log = logging.getLogger(__name__)


class UsageBook:
    """Appends each record with one write, so that a process that is killed loses none that it wrote."""

    def __init__(self, folder: Path, service_id: str) -> None:
        """Makes the folder. Raises ConfigError where that is not possible."""
        self.folder = folder.expanduser().absolute()
        self._service_id = service_id.replace(os.sep, "_")
        self._day: date | None = None
        self._descriptor = -1
        self._is_torn = False
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            close_all_to_others(self.folder)
        except OSError as error:
            raise ConfigError(
                f"cannot use {self.folder} for records of usage: {error.strerror}", param="usage_folder"
            ) from None

    def append(self, record: UsageRecord) -> None:
        """Writes a record. On a full disk the record is lost, counted and logged: requests continue."""
        try:
            self._turn_to(day_of(time.time()))
            # A line that was torn by an earlier end of the process, or by a full disk, is closed first.
            line = (b"\n" if self._is_torn else b"") + to_line(record)
            self._is_torn = os.write(self._descriptor, line) != len(line)
        except OSError as error:
            USAGE_LOST.inc()
            _log.error("a record of usage was lost", extra={"error": str(error), "request_id": record.request_id})
        else:
            if self._is_torn:
                USAGE_LOST.inc()
                _log.error("a record of usage was cut: the disk may be full", extra={"request_id": record.request_id})

    def close(self) -> None:
        """Closes the file of the day."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self._day = -1, None

    def _turn_to(self, day: date) -> None:
        if day == self._day:
            return
        self.close()
        path = self.folder / file_name(day, self._service_id)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, MODE)
        self._day = day
        size = os.fstat(self._descriptor).st_size
        self._is_torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
