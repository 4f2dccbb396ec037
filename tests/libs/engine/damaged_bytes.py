"""Files as an accident or an attacker may leave them."""

import json
import random
from copy import copy
from typing import Any

INTERESTING = (b"-1", b"0", b"1e999", b"null", b'"x"', b"[]", b"{}", b"99999999999", b"NaN", b"../", b"\x00", b"\xff")
VALUES: tuple[Any, ...] = (None, True, 0, -1, 1, 3, 10**6, 10**30, 1e308, 0.5, "", "(a+)+$", "../x", [], [None], {})


def damage(content: bytes, limit: int, generator: random.Random) -> bytes:
    """Changes, removes or replaces a few of the first `limit` bytes by something that parsers trip over."""
    changed = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        position = generator.randrange(min(limit, len(changed)) or 1)
        action = generator.randrange(4)
        if action == 0:
            changed[position : position + 1] = bytes([generator.randrange(256)])
        elif action == 1:
            del changed[position : position + generator.randint(1, 20)]
        elif action == 2:
            changed[position : position + generator.randint(0, 8)] = generator.choice(INTERESTING)
        else:
            del changed[position + generator.randint(0, len(changed)) :]
        if not changed:
            changed = bytearray(b"x")
    return bytes(changed)


def resettle(content: bytes, generator: random.Random) -> bytes:
    """Puts other values into valid JSON, at any depth."""
    root = json.loads(content)
    for _ in range(generator.randint(1, 3)):
        places = list(_places(root))
        holder, key = generator.choice(places)
        holder[key] = copy(generator.choice(VALUES))
    return json.dumps(root).encode()


def _places(node: Any) -> Any:
    """Yields every holder and key in a tree of JSON."""
    keys = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        yield node, key
        if isinstance(node[key], dict | list) and node[key]:
            yield from _places(node[key])
