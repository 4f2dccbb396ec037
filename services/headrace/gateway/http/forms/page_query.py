"""The part of a list that a client asks for."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs

from headrace.errors import InvalidRequest

_SOME_DIGITS = re.compile(r"[0-9]{1,6}")
ORDERS = ("asc", "desc")


class Described(Protocol):
    """Something that is listed."""

    def described(self) -> dict[str, Any]: ...


D = TypeVar("D", bound=Described)


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Query of a list: `after` an id, at most `limit` entries, in `order`, of a `purpose`."""

    limit: int
    after: str = ""
    order: str = "desc"
    purpose: str | None = None

    def page(self, entries: Iterable[D]) -> dict[str, Any]:
        """Returns the first entries, as OpenAI's API writes a list."""
        found = [entry.described() for entry in islice(entries, self.limit + 1)]
        data = found[: self.limit]
        first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
        more = len(found) > len(data)
        return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": more}


def read_page_query(query: bytes, allowed: Collection[str], default: int, most: int) -> PageQuery:
    """Reads a query string. `default`, `most`: entries. Raises InvalidRequest."""
    given = {name: values[-1] for name, values in parse_qs(query.decode("latin-1"), keep_blank_values=True).items()}
    if unknown := sorted(given.keys() - set(allowed)):
        raise InvalidRequest(f"unknown parameter {unknown[0][:80]!r}; there are {', '.join(allowed)}")
    limit = given.get("limit", str(default))
    if not _SOME_DIGITS.fullmatch(limit) or not 1 <= int(limit) <= most:
        raise InvalidRequest(f"limit must be an integer from 1 to {most}", param="limit")
    order = given.get("order", "desc")
    if order not in ORDERS:
        raise InvalidRequest(f"order must be {' or '.join(ORDERS)}", param="order")
    return PageQuery(int(limit), given.get("after", ""), order, given.get("purpose"))
