"""Tenants, who may send requests with the keys of a file."""

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.errors import ConfigError, Unauthenticated
from headrace.gateway.request.request_class import CLASSES
from headrace.v1.generation_pb2 import PriorityClass

SCHEME = "bearer "
_LEAST_URGENT_FIRST = ("batch", "default", "interactive", "realtime")
_RANKS = {CLASSES[name]: rank for rank, name in enumerate(_LEAST_URGENT_FIRST)}


@dataclass(frozen=True, slots=True)
class Tenant:
    """Someone whose requests are kept apart from others', in fairness and in caches."""

    name: str
    weight: float = 1.0
    """Share of the tenant relative to others."""
    highest_class: "PriorityClass.ValueType" = PriorityClass.PRIORITY_CLASS_REALTIME

    def allowed(self, wanted: "PriorityClass.ValueType") -> "PriorityClass.ValueType":
        """Returns the class wanted, or the most urgent one that the tenant may have."""
        return min(wanted, self.highest_class, key=lambda given: _RANKS.get(given, _RANKS[CLASSES["default"]]))


PUBLIC = Tenant("public")
"""Everyone, where there are no keys."""


class Tenants:
    """Finds the tenant of a request. Without keys, all requests have the same one."""

    def __init__(self, by_digest: Mapping[bytes, Tenant] | None = None) -> None:
        """`by_digest`: tenants by the SHA-256 of each of their keys, so that the time of a comparison reveals nothing
        about a key."""
        self._by_digest = by_digest

    def of(self, authorization: str | None) -> Tenant:
        """Returns the tenant whose key is in an Authorization header (RFC 6750). Raises Unauthenticated."""
        if self._by_digest is None:
            return PUBLIC
        if not authorization:
            raise Unauthenticated("an API key is needed: send it as Authorization: Bearer KEY")
        key = authorization[len(SCHEME) :] if authorization.lower().startswith(SCHEME) else authorization
        tenant = self._by_digest.get(_digest(key.strip()))
        if tenant is None:
            raise Unauthenticated("the API key is not known: it may be mistyped, or was taken out of the file of keys")
        return tenant


EVERYONE = Tenants()


class _Entry(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(extra="forbid")

    keys: list[str] = Field(min_length=1)
    weight: float = Field(default=1.0, gt=0, le=1_000_000)
    highest_class: str = Field(default="realtime", pattern=f"^({'|'.join(_LEAST_URGENT_FIRST)})$")


def read_tenants(path: Path | None) -> Tenants:
    """Reads a TOML file with a table per tenant: `keys`, and optionally `weight` and `highest_class`. Without a path
    there are no keys. Raises ConfigError."""
    if path is None:
        return EVERYONE
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the file of tenants {path}: {error}", param="tenants_file") from None
    by_digest: dict[bytes, Tenant] = {}
    for name, table in tables.items():
        entry = _checked(path, name, table)
        tenant = Tenant(name, entry.weight, CLASSES[entry.highest_class])
        for key in entry.keys:
            other = by_digest.setdefault(_digest(key), tenant)
            if other is not tenant:
                raise ConfigError(f"{path}: {other.name} and {name} have the same key", param="tenants_file")
    return Tenants(by_digest)


def _checked(path: Path, name: str, table: object) -> _Entry:
    try:
        return _Entry.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(str(part) for part in (name, *first["loc"]))
        raise ConfigError(f"{path}: {place}: {first['msg']}", param="tenants_file") from None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
