"""The route /headrace/usage."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from urllib.parse import parse_qsl

from headrace.access.usage_report import UsageSum, parse_day, read_usage, summed
from headrace.errors import InvalidRequest, NotFound
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange

PARAMETERS = ("by", "since", "until")


class UsageRoutes:
    """Sums what the requests of a tenant used, from the records in the folder of this gateway."""

    describe_error = staticmethod(error_body)
    scopes = frozenset[str]()

    def __init__(self, folder: Path | None) -> None:
        """`folder`: None where no usage is recorded."""
        self._folder = folder

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/headrace/usage": {"GET": self.usage}}

    async def usage(self, exchange: HttpExchange) -> None:
        """Answers with the usage of the key's own tenant, or of all for a key with the scope admin."""
        if self._folder is None:
            raise NotFound("this gateway records no usage: set gateway.usage_folder")
        given = dict(parse_qsl(exchange.query.decode("latin-1")))
        if unknown := given.keys() - set(PARAMETERS):
            raise InvalidRequest(f"unknown parameter {min(unknown)[:40]!r}: there are {', '.join(PARAMETERS)}")
        by = given.get("by", "key")
        since, until = (parse_day(given.get(name), name) for name in ("since", "until"))
        tenant = None if exchange.caller.sees_all_usage else exchange.caller.tenant.name
        # Files may be large; other requests continue while they are read.
        sums = await asyncio.to_thread(_sums, self._folder, by, since, until, tenant)
        await exchange.send_json(200, {"object": "list", "data": [one.as_dict(by) for one in sums]})


def _sums(folder: Path, by: str, since: date | None, until: date | None, tenant: str | None) -> Sequence[UsageSum]:
    records = read_usage(folder, since, until)
    return summed((record for record in records if tenant is None or record.tenant == tenant), by)
