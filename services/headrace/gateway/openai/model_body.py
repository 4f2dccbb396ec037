"""Request bodies: their parsing, and what all of them share.

Fields are of three kinds: those that work; those that do not work yet, which are refused by name; and unknown ones,
which are listed in a response header, or refused when the gateway is strict.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.errors import InvalidRequest, Unsupported
from headrace.gateway.openai.body_errors import explain

Neutral = Callable[[Any], bool]
"""Whether a value of a field that does not work asks for nothing."""


def never(_value: Any) -> bool:
    """Neutral of a field every value of which asks for something."""
    return False


def is_value(*neutral: Any) -> Neutral:
    """Returns the Neutral of a field of which these values ask for nothing."""
    return lambda value: value in neutral


class ModelBody(BaseModel):
    """Fields that all requests to a model share."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, protected_namespaces=())

    model: str
    user: str | None = None

    unsupported: ClassVar[dict[str, Neutral]] = {}
    """Fields of the API that do not work, and for each whether a value asks for nothing."""


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
        if neutral is not None and value is not None and not neutral(value):
            raise Unsupported(f"{name} is not supported yet", param=name)
    return parsed


def ignored_fields(parsed: ModelBody, strict: bool) -> list[str]:
    """Returns the unknown fields. Raises InvalidRequest when strict."""
    unknown = sorted(name for name in parsed.model_extra or {} if name not in parsed.unsupported)
    if unknown and strict:
        raise InvalidRequest(f"unknown field {unknown[0]}", param=unknown[0])
    return unknown


def _check_encodable(content: Any) -> None:
    """Refuses text that is not Unicode: JSON can spell half of a surrogate pair, UTF-8 cannot."""
    try:
        msgspec.json.encode(content)
    except UnicodeEncodeError:
        raise InvalidRequest("a text holds an unpaired surrogate, which is not valid Unicode") from None
