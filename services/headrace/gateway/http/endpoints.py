"""All endpoints, by path."""

from collections.abc import Iterable, Iterator

from headrace.gateway.http.endpoint import Endpoint
from headrace.gateway.http.endpoint_group import EndpointGroup


class Endpoints:
    """Finds the endpoint of a path."""

    def __init__(self, groups: Iterable[EndpointGroup]) -> None:
        self._all = [
            Endpoint(path, methods, group.scopes, group.describe_error)
            for group in groups
            for path, methods in group.handlers().items()
        ]
        self._fixed = {endpoint.path: endpoint for endpoint in self._all if endpoint.pattern is None}
        self._patterns = [(endpoint.pattern, endpoint) for endpoint in self._all if endpoint.pattern is not None]

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._all)

    def find(self, path: str) -> Endpoint | None:
        found = self._fixed.get(path)
        if found is not None:
            return found
        return next((endpoint for pattern, endpoint in self._patterns if pattern.fullmatch(path)), None)
