"""The keys that a gateway knows: read from the file of keys, and read again when it changes."""

import asyncio
import logging
import time
from collections.abc import Mapping
from hmac import compare_digest
from pathlib import Path

from headrace.access.api_key import ApiKey, new_key, parse_key
from headrace.access.key_file import KeyFile
from headrace.access.key_record import KeyRecord
from headrace.errors import ConfigError, Unauthenticated
from headrace.storage.file_stamp import FileStamp

SCHEME = "bearer "
WATCH_SECONDS = 0.25
_NOBODY = new_key().digest
"""Digest that unknown ids are compared with, so that they take as long as known ones."""

_log = logging.getLogger(__name__)


class KeyRing:
    """Finds the key of a request."""

    def __init__(self, path: Path, *, is_optional: bool = False) -> None:
        """Reads the file of keys. `is_optional`: it may not exist yet. Raises ConfigError."""
        self._file = KeyFile(path)
        self._stamp = FileStamp.of(self._file.path)
        self.awaits_first = is_optional and self._stamp is None
        """Whether there never was a file of keys, so that no key is needed."""
        self._records: Mapping[str, KeyRecord] = {} if self.awaits_first else self._file.read()
        self._fault = ""

    def __contains__(self, key_id: str) -> bool:
        return key_id in self._records

    def find(self, authorization: str | None, api_key: str | None = None) -> KeyRecord:
        """Returns the key in an Authorization header (RFC 6750), or else in x-api-key. Raises Unauthenticated."""
        given = authorization or api_key
        if not given:
            raise Unauthenticated(
                "an API key is needed: send it as Authorization: Bearer KEY or as x-api-key: KEY; "
                "headrace keys create makes one"
            )
        text = given[len(SCHEME) :] if given.lower().startswith(SCHEME) else given
        record = self._matching(parse_key(text.strip()))
        if record is None:
            raise Unauthenticated("the API key is not known: it may be mistyped, or was replaced by a newer one")
        return _checked(record)

    def current(self, key_id: str) -> KeyRecord:
        """Returns what a key may do now, without its secret: the caller has checked that before. Raises
        Unauthenticated."""
        record = self._records.get(key_id)
        if record is None:
            raise Unauthenticated(f"the API key {key_id} is gone: ask the operator of this platform for a new one")
        return _checked(record)

    def _matching(self, key: ApiKey | None) -> KeyRecord | None:
        """Compares two digests, whatever is given and known, in a time that tells nothing about them."""
        given = (key or new_key()).digest
        record = self._records.get(key.key_id) if key else None
        former = record.former_digest if record and time.time() < record.former_expires else None
        is_current = compare_digest(given, record.digest if record else _NOBODY)
        is_former = compare_digest(given, former or _NOBODY)
        return record if is_current or is_former else None

    def report(self) -> str:
        """Says, for people, how many keys there are and whether the file can be read."""
        count = sum(record.is_valid() for record in self._records.values())
        return f"{count} known" if not self._fault else f"{count} known, but the file is not readable: {self._fault}"

    async def watch(self) -> None:
        """Reads the file again whenever it has changed, until cancelled. One that cannot be read changes nothing."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Reads the file if it has changed."""
        stamp = FileStamp.of(self._file.path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._records = self._file.read()
        except ConfigError as error:
            self._fault = error.message
            _log.error("the keys stay as they were", extra={"error": error.message})
            return
        self._fault, self.awaits_first = "", False
        _log.info("read the file of keys", extra={"keys": self.report()})


def _checked(record: KeyRecord) -> KeyRecord:
    """Returns a key that works. Raises Unauthenticated."""
    if record.revoked is not None:
        raise Unauthenticated(f"the API key {record.id} was revoked: ask the operator of this platform for a new one")
    if not record.is_valid():
        raise Unauthenticated(f"the API key {record.id} has expired: ask the operator of this platform for a new one")
    return record
