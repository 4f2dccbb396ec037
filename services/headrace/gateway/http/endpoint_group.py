"""Endpoints that belong together."""

from collections.abc import Mapping, Set
from typing import Any, Protocol

from headrace.gateway.http.exchange import Handler


class EndpointGroup(Protocol):
    """Endpoints of one API."""

    @property
    def scopes(self) -> Set[str] | None:
        """Scopes of which a key must have one. Empty: any key will do; None: no key is needed."""

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        """Returns handlers by path and method. `{id}` in a path stands for one segment, `{name}` for one or more."""

    def describe_error(self, error: BaseException) -> dict[str, Any]:
        """Returns the body that answers a request of this group with an error."""
