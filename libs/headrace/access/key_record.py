"""Record of a key in the file of keys: everything but its secret."""

import re
import time
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

SCOPES = {
    "generate": "completions and chats, and their tokens",
    "embed": "embeddings, and their tokens",
    "admin": "the usage of every tenant, the requests that are open, and keys: to list, create and revoke them",
}
"""Scopes of keys, and what each is good for."""
DEFAULT_SCOPES = ("generate", "embed")
CLASS_NAMES = ("batch", "default", "interactive", "realtime")
"""Classes of requests, the least urgent first."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,63}")
"""Names of keys and tenants: they are printed in tables, logs and reports, so they hold no control characters."""
MINUTE, DAY = 60.0, 86400.0
_SECRETS = ("digest", "former_digest", "former_expires")
"""Fields of a record that are never shown."""

_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Name = Annotated[str, StringConstraints(pattern=rf"^{NAME.pattern}$")]
_Scope = Annotated[str, StringConstraints(pattern=f"^({'|'.join(SCOPES)})$")]
_Class = Annotated[str, StringConstraints(pattern=f"^({'|'.join(CLASS_NAMES)})$")]
_Bound = Annotated[int, Field(ge=1, le=10**12)]


class KeyLimits(BaseModel):
    """Limits on the use of a key. None: no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_minute: _Bound | None = None
    tokens_per_minute: _Bound | None = None
    """Tokens of prompts and outputs together."""
    requests_per_day: _Bound | None = None
    tokens_per_day: _Bound | None = None
    concurrency: _Bound | None = None
    """Requests that run at once."""

    def __bool__(self) -> bool:
        return any(value is not None for _, value in self)


class KeyRecord(BaseModel):
    """One key. Times are in seconds since 1970."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{8,12}$")]
    name: _Name
    digest: _Digest
    """SHA-256 of the key, in hexadecimal."""
    former_digest: _Digest | None = None
    """Digest of the key before its last rotation."""
    former_expires: float = 0.0
    """Time until which the former key works too."""
    tenant: _Name
    scopes: tuple[_Scope, ...] = DEFAULT_SCOPES
    created: float
    expires: float | None = None
    """Time from which the key no longer works. None: it works until it is revoked."""
    revoked: float | None = None
    """Time at which the key was revoked. None: it was not."""
    models: tuple[str, ...] = ()
    """Models that the key may use. Empty: all."""
    limits: KeyLimits = KeyLimits()
    weight: Annotated[float, Field(gt=0, le=1_000_000)] = 1.0
    """Share of the key's requests relative to others while requests wait."""
    highest_class: _Class = "realtime"
    longest_deadline: Annotated[float, Field(gt=0)] | None = None
    """Maximum seconds that a request may take. None: the gateway's setting decides."""

    def is_valid(self, now: float | None = None) -> bool:
        """Whether the key works at a time, which is now unless given."""
        moment = time.time() if now is None else now
        return self.revoked is None and (self.expires is None or moment < self.expires)

    @property
    def state(self) -> str:
        """State of the key, for people: valid, revoked or expired."""
        if self.revoked is not None:
            return "revoked"
        return "valid" if self.is_valid() else "expired"

    def described(self) -> dict[str, Any]:
        """Returns the record as JSON has it, with its state and without what its secret could be tested against."""
        return self.model_dump(mode="json", exclude=set(_SECRETS)) | {"state": self.state}
