"""Body of POST /headrace/keys."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.access.key_record import DEFAULT_SCOPES, KeyLimits
from headrace.errors import InvalidRequest

MAX_SECONDS = 100 * 366 * 86400


class KeyBody(BaseModel):
    """Fields of a new key. Fields left out are as `headrace keys create` has them."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    name: str
    tenant: str = ""
    """Tenant that pays. Empty: the name."""
    scopes: Annotated[tuple[str, ...], Field(min_length=1, max_length=8)] = DEFAULT_SCOPES
    lifetime_seconds: Annotated[float, Field(gt=0, le=MAX_SECONDS)] | None = None
    """Seconds after which the key no longer works. None: it works until it is revoked."""
    models: Annotated[tuple[str, ...], Field(max_length=1000)] = ()
    limits: KeyLimits = KeyLimits()
    weight: float = 1.0
    highest_class: str = "realtime"
    longest_deadline: float | None = None
    """Maximum seconds that a request may take."""


def parse_key_body(body: bytes) -> KeyBody:
    """Reads a body. Raises InvalidRequest with the name of the field, without its value."""
    try:
        return KeyBody.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{where or 'the body'}: {first['msg'][0].lower()}{first['msg'][1:]}"
        raise InvalidRequest(message, param=str(first["loc"][0]) if first["loc"] else None) from None
