"""Sizes as people write them on a command line: 500M, 8G, 1.5T."""

import re

from headrace.errors import InvalidRequest

UNITS = {"M": 10**6, "G": 10**9, "T": 10**12}
_FORM = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([MGT])B?", re.IGNORECASE)


def parse_size(text: str, param: str) -> int:
    """Returns the bytes that a text such as 8G stands for, in powers of 1000. Raises InvalidRequest."""
    match = _FORM.fullmatch(text.strip())
    size = 0 if match is None else int(float(match[1]) * UNITS[match[2].upper()])
    if size == 0:
        raise InvalidRequest(f"--{param} is {text!r}; give a number and a unit, such as 500M, 8G or 1.5T")
    return size


def size_text(byte_count: float) -> str:
    """Returns a size for people, such as 8.0 GB."""
    return f"{byte_count / 1e9:.1f} GB" if byte_count >= 1e9 else f"{byte_count / 1e6:.0f} MB"
