"""Names the test that opened a connection which asyncio finds unclosed: garbage is collected tests later."""

import os
from asyncio import selector_events
from typing import Any

TRANSPORT: Any = vars(selector_events)["_SelectorTransport"]
_init, _repr = TRANSPORT.__init__, TRANSPORT.__repr__


def _opened(self: Any, *arguments: Any, **settings: Any) -> None:
    self.opened_in = os.environ.get("PYTEST_CURRENT_TEST", "no test")
    _init(self, *arguments, **settings)


def _shown(self: Any) -> str:
    return f"{_repr(self)} of {getattr(self, 'opened_in', 'an unknown test')}"


TRANSPORT.__init__, TRANSPORT.__repr__ = _opened, _shown
