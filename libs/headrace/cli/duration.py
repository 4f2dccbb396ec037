"""Times as people write them on a command line, such as 90s, and as they read them, such as 2 d 3 h."""

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


def duration_text(seconds: float) -> str:
    """Returns a time as people say it, such as 2 d 3 h, 5 min or 12 s."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{whole} s"
