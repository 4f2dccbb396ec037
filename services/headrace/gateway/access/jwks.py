"""Public keys of the token issuer (RFC 7517), from a file or a URL."""

import asyncio
import json
import logging
from pathlib import Path

import httpx2
from joserfc.jwk import KeySet

from headrace.errors import ConfigError

REFRESH_SECONDS = 300.0
RETRY_SECONDS = 5.0
"""Seconds between attempts while the keys are not known."""
TIMEOUT_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Jwks:
    """Keeps the keys, and reads them again now and then: issuers change theirs."""

    def __init__(self, location: str) -> None:
        """`location`: a path, which is read at once, or a URL. Raises ConfigError for a file that cannot be used."""
        self._location = location
        self._is_remote = location.startswith(("http://", "https://"))
        self.keys: KeySet | None = None if self._is_remote else self._read_file()
        """The keys. None while they are not known."""

    async def watch(self) -> None:
        """Reads the keys again and again, until cancelled. Keys that cannot be read stay as they were."""
        while True:
            if self._is_remote:
                await self.fetch()
            else:
                self._reread_file()
            await asyncio.sleep(REFRESH_SECONDS if self.keys is not None else RETRY_SECONDS)

    async def fetch(self) -> None:
        """Asks the URL."""
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
                answer = await client.get(self._location)
            answer.raise_for_status()
            self.keys = KeySet.import_key_set(answer.json())
        except (httpx2.HTTPError, ValueError) as error:
            _log.warning("the keys of tokens cannot be fetched", extra={"url": self._location, "error": str(error)})

    def _reread_file(self) -> None:
        try:
            self.keys = self._read_file()
        except ConfigError as error:
            _log.error("the keys of tokens stay as they were", extra={"error": error.message})

    def _read_file(self) -> KeySet:
        try:
            return KeySet.import_key_set(json.loads(Path(self._location).read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"cannot read the keys of tokens {self._location}: {error}", param="jwt_keys") from None
