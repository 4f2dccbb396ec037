"""Request bodies: their parsing, and what all of them share.

Fields are of four kinds: supported ones; ones not supported yet, which are refused by name; ones without which a
request is answered; and unknown ones. The last two are listed in a response header, or refused when the gateway is
strict.
"""

from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.api.entry.body_errors import explain
from headrace.gateway.api.entry.neutral import Neutral, asks_for_something


def _or_empty(value: Any) -> Any:
    return "" if value is None else value


ModelField = Annotated[str, BeforeValidator(_or_empty)]


class ModelBody(BaseModel):
    """Fields that all requests to a model share."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=())

    model: ModelField = ""
    """Empty: the only model that answers such requests."""
    user: str | None = None

    unsupported: ClassVar[dict[str, Neutral]] = {}
    """Fields of the API that do not work, and for each whether a value asks for nothing. No value and an empty one
    never do."""
    dispensable: ClassVar[dict[str, Neutral]] = {}
    """Fields of the API that do not work, and without which a request is answered all the same."""

    def left_out(self) -> list[str]:
        """Names what the request asks for beside its answer, and does not get."""
        given = self.model_extra or {}
        return [name for name, neutral in self.dispensable.items() if asks_for_something(given.get(name), neutral)]


M = TypeVar("M", bound="ModelBody")


def parse(schema: type[M], body: bytes) -> M:
    """Reads a body. Raises InvalidRequest naming the field, or Unsupported."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidRequest("the body must be a JSON object")
    if b"\\u" in body:
        _check_encodable(content)
    try:
        parsed = schema.model_validate(content)
    except ValidationError as error:
        raise explain(error) from None
    for name, value in (parsed.model_extra or {}).items():
        neutral = schema.unsupported.get(name)
        if neutral is not None and asks_for_something(value, neutral):
            raise Unsupported(f"{name} is not supported yet", param=name)
    return parsed


def ignored_fields(parsed: ModelBody, strict: bool) -> list[str]:
    """Returns the unknown fields, and what the request is answered without. Raises InvalidRequest when strict."""
    known = parsed.unsupported.keys() | parsed.dispensable.keys()
    unknown = sorted((parsed.model_extra or {}).keys() - known)
    left_out = parsed.left_out()
    if strict and unknown:
        raise InvalidRequest(f"unknown field {unknown[0]}", param=unknown[0])
    if strict and left_out:
        name = left_out[0]
        raise Unsupported(f"{name} is not supported, and this gateway is strict: leave it out", param=name)
    return [*unknown, *left_out]


def _check_encodable(content: Any) -> None:
    """Refuses text that is not Unicode: JSON can spell half of a surrogate pair, UTF-8 cannot."""
    try:
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        raise InvalidRequest("a text holds an unpaired surrogate, which is not valid Unicode") from None
