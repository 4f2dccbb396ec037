"""Question about requests, as gateways ask each other."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestQuery:
    """Choice of requests that have ended, or of open ones, which are counted."""

    tenant: str
    all_tenants: bool = False
    """Whether those of all tenants are meant. Only for open requests."""
    is_open: bool = False
    limit: int = 1
    """Maximum number of records wanted."""
    model: str = ""
    """Model of those wanted. Empty: all."""
    outcome: str = ""
    """Outcome of those wanted. Empty: all."""
    name: str = ""
    """Id of the one that is wanted, or `last`. Empty: the newest."""
