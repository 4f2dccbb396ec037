"""Endpoint that a path leads to."""

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from headrace.gateway.http.exchange import Handler

_PLACEHOLDERS = {"{id}": "[^/]+", "{name}": ".+"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Handlers of one path."""

    path: str
    """The path, with placeholders where it has any."""
    methods: Mapping[str, Handler]
    scopes: Set[str] | None
    """Scopes of which a key must have one. Empty: any key will do; None: no key is needed."""
    describe_error: Callable[[BaseException], dict[str, Any]]

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """Pattern of the paths that lead here, or None if there is one alone."""
        if "{" not in self.path:
            return None
        parts = re.split(r"(\{\w+\})", self.path)
        return re.compile("".join(_PLACEHOLDERS.get(part) or re.escape(part) for part in parts))
