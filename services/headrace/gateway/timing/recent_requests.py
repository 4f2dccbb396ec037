"""The last requests of this gateway."""

from collections import deque
from collections.abc import Iterator

from headrace.gateway.timing.request_record import RequestRecord

LAST = "last"
"""Name of the newest request, whatever its id."""


class RecentRequests:
    """Keeps the newest records and forgets older ones. A tenant sees its own only."""

    def __init__(self, most: int = 512) -> None:
        """`most`: number of records that are kept."""
        self._records: deque[RequestRecord] = deque(maxlen=most)
        self.added_count = 0
        """Number of records that were ever added."""

    def add(self, record: RequestRecord) -> None:
        """Adds the record of a request that has ended."""
        self._records.append(record)
        self.added_count += 1

    def since(self, added_count: int) -> list[RequestRecord]:
        """Returns the records of all tenants that were added after so many others, newest first, as far as kept."""
        return [
            record for record, _ in zip(reversed(self._records), range(self.added_count - added_count), strict=False)
        ]

    def newest(
        self, tenant: str, limit: int, model: str | None = None, outcome: str | None = None
    ) -> list[RequestRecord]:
        """Returns at most `limit` records of a tenant, newest first; those of a model or with an outcome, if named."""
        found = (
            record for record in self._of(tenant) if model in (None, record.model) and outcome in (None, record.outcome)
        )
        return [record for record, _ in zip(found, range(limit), strict=False)]

    def find(self, tenant: str, name: str) -> RequestRecord | None:
        """Returns the newest record with this client's id or request id; or the newest of all, for `last`."""
        names = (record for record in self._of(tenant) if name in (LAST, record.client_id, record.request_id))
        return next(names, None)

    def _of(self, tenant: str) -> Iterator[RequestRecord]:
        return (record for record in reversed(self._records) if record.tenant == tenant)
