"""Body of POST /headrace/workers/{id}/drain."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.gateway.api.entry.body_errors import explain

MAX_PATIENCE_SECONDS = 86400


class DrainBody(BaseModel):
    """Terms on which a worker ends."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    patience_seconds: Annotated[float, Field(ge=0, le=MAX_PATIENCE_SECONDS)] = 0.0
    """Seconds in which running requests may still end where they are. 0: they move at once."""
    force: bool = False
    """Whether the last worker of a model may go. Its requests then wait for the next one."""


def parse_drain_body(body: bytes) -> DrainBody:
    """Reads a body; an empty one asks for nothing special. Raises InvalidRequest naming the field."""
    try:
        return DrainBody.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise explain(error) from None
