"""The `multipleOf` of a JSON schema, which is followed with a state per remainder.

Large ones take minutes and much memory, and none of llguidance's own limits ends it.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.errors.tree import InvalidRequest

MAX_REMAINDERS = 100_000
"""Maximum number of remainders of all `multipleOf` together, and of combinations of them. As many take about a
second."""
MAX_DECIMALS = 20
_KEYWORD = "multipleOf"
_COMBINING = ("allOf", "anyOf", "oneOf", "$ref")
"""Keywords that can make several schemas hold at once, so that their remainders multiply."""
_IN_TEXT = re.compile(rf'"{_KEYWORD}"\s*:\s*([0-9][-+0-9.eE]*)')
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


def check_multiples(schema: Any) -> None:
    """Raises InvalidRequest for a schema, as Python's json reads it, with too many or too large numbers."""
    found = [Decimal(repr(number)) for number in _multiples_in(schema) if 0 < number < math.inf]
    if found:
        _check(found, json.dumps(schema))


def check_multiples_in_text(text: str) -> None:
    """Raises InvalidRequest for a grammar with schemas in it that have too many or too large numbers."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    found = [number for number in map(_decimal, _IN_TEXT.findall(plain)) if 0 < number < math.inf]
    if found:
        _check(found, plain)


def _multiples_in(schema: Any) -> Iterator[float]:
    rest = [schema]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            number = part.get(_KEYWORD)
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield number
            rest += part.values()
        elif isinstance(part, list):
            rest += part


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal(0)


def _check(numbers: Sequence[Decimal], text: str) -> None:
    is_extreme = any(number > MAX_REMAINDERS or _decimals(number) > MAX_DECIMALS for number in numbers)
    if is_extreme or _remainder_count(numbers, text) > MAX_REMAINDERS:
        raise InvalidRequest(
            f"the numbers of {_KEYWORD} are followed by their remainders, of which at most {MAX_REMAINDERS} are "
            "allowed: use smaller numbers, or check them afterwards"
        )


def _remainder_count(numbers: Sequence[Decimal], text: str) -> int:
    """Counts the most states that following all of the numbers may take."""
    total = sum(int(number.scaleb(_decimals(number))) for number in numbers)
    if len(set(numbers)) == 1 or not any(keyword in text for keyword in _COMBINING):
        return total
    decimals = max(map(_decimals, numbers))
    return max(total, math.lcm(*(int(number.scaleb(decimals)) for number in set(numbers))))


def _decimals(number: Decimal) -> int:
    return max(0, -int(number.normalize().as_tuple().exponent))
