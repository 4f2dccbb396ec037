"""The routes /headrace/keys and /headrace/keys/{id}: API keys, for holders of one with the scope admin."""

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.access.api_key import ApiKey
from headrace.access.key_file import KeyFile
from headrace.access.key_record import KeyRecord
from headrace.errors import NotFound
from headrace.gateway.console.key_body import KeyBody, parse_key_body
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange

PATH = "/headrace/keys"
_log = logging.getLogger(__name__)


class KeyRoutes:
    """Lists, creates and revokes keys in the file that the gateway follows."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"admin"})

    def __init__(self, path: Path | None) -> None:
        """`path`: the file of keys. None where no key is needed: then callers cannot be distinguished, and there is
        nothing here."""
        self._path = path

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {
            PATH: {"GET": self.list_keys, "POST": self.create_key},
            f"{PATH}/{{id}}": {"DELETE": self.revoke_key},
        }

    def _file(self, exchange: HttpExchange) -> KeyFile:
        if self._path is None:
            raise NotFound(
                "this gateway asks for no keys: make one with headrace keys create ADMIN --scope admin, and start "
                "the platform again"
            )
        if exchange.caller.key is None:
            raise NotFound(
                "there are no keys yet: make the first one with headrace keys create ADMIN --scope admin. It is needed "
                "at once"
            )
        return KeyFile(self._path)

    async def list_keys(self, exchange: HttpExchange) -> None:
        """Answers with every key but for its secret, the oldest first."""
        records = await asyncio.to_thread(self._file(exchange).read)
        listed = [record.described() for record in sorted(records.values(), key=lambda record: record.created)]
        await _send_secretly(exchange, {"object": "list", "data": listed})

    async def create_key(self, exchange: HttpExchange) -> None:
        """Makes a key and answers with it: it is shown this once, and only its digest is stored."""
        file = self._file(exchange)
        body = parse_key_body(await exchange.read_body())
        key, record = await asyncio.to_thread(_create, file, body)
        _log.info("made a key", extra={"key": record.id, "by": _name_of(exchange)})
        await _send_secretly(exchange, {"key": key.text} | record.described())

    async def revoke_key(self, exchange: HttpExchange) -> None:
        """Ends a key for good. Gateways know within a second."""
        record = await asyncio.to_thread(self._file(exchange).revoke, exchange.path.removeprefix(f"{PATH}/"))
        _log.info("revoked a key", extra={"key": record.id, "by": _name_of(exchange)})
        await _send_secretly(exchange, record.described())


def _create(file: KeyFile, body: KeyBody) -> tuple[ApiKey, KeyRecord]:
    fields = body.model_dump(exclude={"name", "tenant", "lifetime_seconds"})
    expires = None if body.lifetime_seconds is None else time.time() + body.lifetime_seconds
    return file.create(body.name, body.tenant, expires=expires, **fields)


def _name_of(exchange: HttpExchange) -> str:
    return exchange.caller.key.id if exchange.caller.key else ""


async def _send_secretly(exchange: HttpExchange, content: dict[str, object]) -> None:
    exchange.headers["cache-control"] = "no-store"
    await exchange.send_json(200, content)
