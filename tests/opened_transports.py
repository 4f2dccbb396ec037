"""Names the test that opened a connection which asyncio finds unclosed: garbage is collected tests later."""

import os
from asyncio.selector_events import _SelectorTransport
from typing import Any

_init, _repr = _SelectorTransport.__init__, _SelectorTransport.__repr__


def _opened(self: Any, *arguments: Any, **settings: Any) -> None:
    self.opened_in = os.environ.get("PYTEST_CURRENT_TEST", "no test")
    _init(self, *arguments, **settings)


def _shown(self: Any) -> str:
    return f"{_repr(self)} of {getattr(self, 'opened_in', 'an unknown test')}"


_SelectorTransport.__init__ = _opened  # type: ignore[method-assign]
_SelectorTransport.__repr__ = _shown  # type: ignore[method-assign]
