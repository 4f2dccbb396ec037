"""The file of keys: JSON with the SHA-256 of every key, and never a key itself."""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace.access.api_key import ApiKey, new_key
from headrace.access.key_record import KeyRecord
from headrace.errors import ConfigError, InvalidRequest, NotFound
from headrace.storage.file_lock import locked
from headrace.storage.whole_file import write_whole

FILE_NAME = "keys.json"
VERSION = 1


class KeyFile:
    """Reads and changes the file. Each change replaces the file whole, under a lock beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()

    def read(self) -> dict[str, KeyRecord]:
        """Returns the keys by id. Raises ConfigError for a file that is missing, unreadable or not valid."""
        try:
            content = json.loads(self.path.read_bytes())
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read the file of keys {self.path}: {error}", param="keys_file") from None
        if (
            not isinstance(content, dict)
            or content.get("version") != VERSION
            or not isinstance(content.get("keys"), list)
        ):
            raise ConfigError(
                f"{self.path} is no file of keys of version {VERSION}: make one with headrace keys create",
                param="keys_file",
            )
        records = [self._record(entry) for entry in content["keys"]]
        return {record.id: record for record in records}

    def create(self, name: str, tenant: str = "", **fields: Any) -> tuple[ApiKey, KeyRecord]:
        """Adds a key, and makes the file if there is none. Raises InvalidRequest and ConfigError."""
        with self._changed(must_exist=False) as records:
            key = new_key()
            while key.key_id in records:
                key = new_key()
            given = {"id": key.key_id, "name": name, "tenant": tenant or name, "digest": key.digest}
            record = _checked(given | {"created": time.time()} | fields)
            records[key.key_id] = record
        return key, record

    def rotate(self, key_id: str, overlap: float = 0.0) -> tuple[ApiKey, KeyRecord]:
        """Gives a key a new secret; the former one works for another `overlap` seconds. Raises NotFound,
        InvalidRequest and ConfigError."""
        with self._changed() as records:
            record = _known(records, key_id)
            if record.revoked is not None:
                raise InvalidRequest(f"key {key_id} is revoked: create another with headrace keys create")
            key = new_key(key_id)
            former = {"former_digest": record.digest, "former_expires": time.time() + overlap} if overlap else {}
            gone = {"former_digest": None, "former_expires": 0.0}
            record = record.model_copy(update={**gone, **former, "digest": key.digest})
            records[key_id] = record
        return key, record

    def revoke(self, key_id: str) -> KeyRecord:
        """Ends a key. Raises NotFound and ConfigError."""
        with self._changed() as records:
            record = _known(records, key_id)
            if record.revoked is None:
                record = record.model_copy(update={"revoked": time.time()})
            records[key_id] = record
        return record

    def _record(self, entry: object) -> KeyRecord:
        try:
            return KeyRecord.model_validate(entry)
        except ValidationError as error:
            name = str(entry.get("id", "?"))[:20] if isinstance(entry, dict) else "?"
            raise ConfigError(f"{self.path}: key {name}: {_first_fault(error)}", param="keys_file") from None

    @contextlib.contextmanager
    def _changed(self, *, must_exist: bool = True) -> Iterator[dict[str, KeyRecord]]:
        """Yields the keys to change, and writes them afterwards."""
        try:
            with locked(self.path):
                records = self.read() if must_exist or self.path.exists() else {}
                yield records
                self._write(records)
        except OSError as error:
            raise ConfigError(f"cannot change the file of keys {self.path}: {error}", param="keys_file") from None

    def _write(self, records: Mapping[str, KeyRecord]) -> None:
        """Replaces the file. It is on the disk before its name is."""
        content = {"version": VERSION, "keys": [record.model_dump(mode="json") for record in records.values()]}
        write_whole(self.path, json.dumps(content, indent=1))


def _known(records: Mapping[str, KeyRecord], key_id: str) -> KeyRecord:
    if key_id not in records:
        raise NotFound(f"there is no key {key_id[:80]!r}: headrace keys list shows the ids")
    return records[key_id]


def _checked(fields: dict[str, Any]) -> KeyRecord:
    try:
        return KeyRecord.model_validate(fields)
    except ValidationError as error:
        raise InvalidRequest(f"the key is not valid: {_first_fault(error)}") from None


def _first_fault(error: ValidationError) -> str:
    """Says where the first fault is, without the value: it may be a secret in the wrong place."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}"
