"""Roles in a platform, and the names by which certificates tell them.

A role is a DNS name in the certificate, so that servers and clients of TLS check it as they check any host (RFC 9525),
wherever the process runs.
"""

from collections.abc import Iterable

OPERATOR = "operator"
"""Role of commands, such as `headrace explain`."""
NATS = "nats"
ROLES = ("gateway", "tokenizer", "scheduler", "cache", "worker", NATS, OPERATOR)
SERVERS = frozenset(ROLES) - {OPERATOR}
"""Roles that are called."""
CLIENTS = frozenset(ROLES) - {NATS}
"""Roles that call others."""
CALLERS = CLIENTS | {NATS}
"""Roles that show a certificate where they connect: those, and servers of NATS to others of their cluster."""
DOMAIN = "headrace.internal"


def name_of(role: str) -> str:
    """Returns the DNS name that a certificate of the role has."""
    return f"{role}.{DOMAIN}"


def role_of(names: Iterable[str]) -> str | None:
    """Returns the role that the DNS names of a certificate tell, or None if they tell none."""
    by_name = {name_of(role): role for role in ROLES}
    return next((by_name[name] for name in names if name in by_name), None)
