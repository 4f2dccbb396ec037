"""Times as people write them on a command line: 90s, 15m, 1h, 30d."""

import re

from headrace.errors import InvalidRequest

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORM = re.compile(r"([0-9]{1,9})([smhd])")


def parse_duration(text: str, param: str) -> float:
    """Returns the seconds that a text such as 30d stands for. Raises InvalidRequest."""
    match = _FORM.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise InvalidRequest(f"--{param} is {text!r}; give a number and a unit, such as 90s, 15m, 1h or 30d")
    return float(int(match[1]) * UNITS[match[2]])
