"""Body of POST /v1/batches."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.gateway.api.entry.body_errors import explain

MIN_SECONDS, MAX_SECONDS = 3600, 30 * 86400
"""Seconds for which a client may have a file kept."""
_Endpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/moderations"]
_Window = Literal["24h"]
_Key = Annotated[str, Field(max_length=64)]
_Value = Annotated[str, Field(max_length=512)]


class ExpiresAfter(BaseModel):
    """Time for which a file is kept."""

    model_config = ConfigDict(strict=True, extra="forbid")

    anchor: Literal["created_at"]
    seconds: int = Field(ge=MIN_SECONDS, le=MAX_SECONDS)


class BatchBody(BaseModel):
    """Fields of a new batch."""

    model_config = ConfigDict(strict=True, extra="ignore")

    input_file_id: str
    endpoint: _Endpoint
    completion_window: _Window
    metadata: Annotated[dict[_Key, _Value], Field(max_length=16)] | None = None
    output_expires_after: ExpiresAfter | None = None


def parse_batch_body(body: bytes) -> BatchBody:
    """Reads a body. Raises InvalidRequest naming the field."""
    try:
        return BatchBody.model_validate_json(body)
    except ValidationError as error:
        raise explain(error) from None
