"""Logs of the events of responses in the background that this gateway writes, or wrote not long ago."""

from collections import OrderedDict

from headrace.gateway.access.tenant import Tenant
from headrace.gateway.api.openai.responses.background.event_log import EventLog

MAX_BYTES = 32 * 1024 * 1024
"""Maximum bytes of all logs. Beyond that, closed logs are forgotten, oldest first."""


class EventLogs:
    """Finds the log of a response. Tenants do not see each other's."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._logs: OrderedDict[tuple[str, str], EventLog] = OrderedDict()

    def open(self, tenant: Tenant, response_id: str) -> EventLog:
        """Begins the log of a response, and forgets old ones."""
        size = sum(log.size for log in self._logs.values())
        for key, log in list(self._logs.items()):
            if size > self._max_bytes and log.is_closed:
                size -= self._logs.pop(key).size
        opened = self._logs[tenant.name, response_id] = EventLog()
        return opened

    def find(self, tenant: Tenant, response_id: str) -> EventLog | None:
        """Returns the log of a response, if it is kept here."""
        return self._logs.get((tenant.name, response_id))

    def forget(self, tenant: Tenant, response_id: str) -> None:
        """Drops the log of a response that was deleted."""
        self._logs.pop((tenant.name, response_id), None)
