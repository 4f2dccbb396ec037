"""Endpoints that belong together."""

from collections.abc import Mapping
from typing import Any, Protocol

from headrace.gateway.http.exchange import Handler


class EndpointGroup(Protocol):
    """Endpoints of one API."""

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        """Returns handlers by path and method. `{id}` in a path stands for one segment, `{name}` for one or more."""

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        """Returns the body that answers a request of this group with an error."""
