"""Rule that a model of the platform applies to inputs and outputs."""

from dataclasses import dataclass
from typing import Any

import re2

from headrace.errors import ConfigError

LLAMA_GUARD_UNSAFE = r"^\s*unsafe"


@dataclass(frozen=True, slots=True)
class GuardRule:
    """Model that is shown a conversation, and the verdicts by which it is unsafe."""

    model: str
    on_input: bool
    on_output: bool
    """Answers are held back until they are whole and judged."""
    unsafe: Any
    """Compiled expression of RE2 that an unsafe verdict matches."""

    def is_unsafe(self, verdict: str) -> bool:
        return self.unsafe.search(verdict) is not None


def unsafe_verdicts(expression: str) -> Any:
    """Compiles the expression of unsafe verdicts. Raises ConfigError."""
    try:
        return re2.compile(expression)
    except re2.error as error:
        raise ConfigError(
            f"the guard's unsafe verdict is no regular expression of RE2: {error}", param="filters_file"
        ) from None
