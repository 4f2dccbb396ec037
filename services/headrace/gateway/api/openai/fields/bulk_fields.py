"""Request fields that may hold a million values, checked by hand in one pass that ends at the first mistake.

A validator that tries every type of a union on every element, and keeps every mistake, takes half a minute and
gigabytes for one body of 8 MB.
"""

from array import array
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from headrace.gateway.api.entry.mistake import mistake

_PROMPT = "must be a string, a list of strings, a list of token ids, or a list of lists of token ids"
_MAX_TOKEN_ID = 2**31 - 1


def _check_ids(values: list[Any], otherwise: str) -> None:
    if not values:
        return
    if set(map(type, values)) != {int}:
        raise mistake(otherwise)
    try:
        # Copying them into an array of 32-bit integers is the quickest check of their range.
        array("i", values)
        array("I", values)
    except OverflowError:
        bad = next(value for value in values if not 0 <= value <= _MAX_TOKEN_ID)
        raise mistake(f"has the token id {bad}; token ids are integers from 0 to {_MAX_TOKEN_ID}") from None


def _prompt(value: Any) -> Any:
    if type(value) is str:
        return value
    if type(value) is not list:
        raise mistake(_PROMPT)
    first = type(value[0]) if value else int
    if first is int:
        _check_ids(value, _PROMPT)
        return value
    if first not in (list, str) or set(map(type, value)) != {first}:
        raise mistake(_PROMPT)
    if first is list:
        for entry in value:
            _check_ids(entry, _PROMPT)
    return value


def _token_ids(value: Any) -> Any:
    if type(value) is not list:
        raise mistake("must be a list of token ids")
    _check_ids(value, "must be a list of token ids")
    return value


def _moderated(value: Any) -> list[str]:
    """Returns the texts of a moderation: of a string, a list of strings, or a list of parts that are text."""
    if type(value) is str:
        return [value]
    if type(value) is not list or not value:
        raise mistake("must be a string, or a list of strings or of parts that are text")
    return [each if type(each) is str else _part_text(each) for each in value]


def _part_text(part: Any) -> str:
    text = part.get("text") if type(part) is dict and part.get("type") == "text" else None
    if type(text) is not str:
        raise mistake("must be texts: other parts are not read")
    return text


def _stop(value: Any) -> Any:
    if value is None or type(value) is str:
        return value
    if type(value) is not list or not set(map(type, value)) <= {str}:
        raise mistake("must be a string or a list of strings")
    return value


def _logit_bias(value: Any) -> Any:
    if value is None:
        return None
    if type(value) is not dict:
        raise mistake("must map token ids to numbers")
    for bias in value.values():
        if type(bias) not in (int, float) or not -100 <= bias <= 100:
            raise mistake("must map token ids to numbers from -100 to 100")
    return value


_TokenId = Annotated[int, Field(ge=0, le=_MAX_TOKEN_ID)]
_Bias = Annotated[float, Field(ge=-100, le=100)]
_Prompt = str | list[str] | list[_TokenId] | list[list[_TokenId]]
PromptField = Annotated[
    str | list[str] | list[int] | list[list[int]], PlainValidator(_prompt, json_schema_input_type=_Prompt)
]
TokenIdsField = Annotated[list[int], PlainValidator(_token_ids, json_schema_input_type=list[_TokenId])]
ModeratedField = Annotated[
    list[str], PlainValidator(_moderated, json_schema_input_type=str | list[str] | list[dict[str, Any]])
]
StopField = Annotated[str | list[str] | None, PlainValidator(_stop, json_schema_input_type=str | list[str] | None)]
LogitBiasField = Annotated[
    dict[str, float] | None, PlainValidator(_logit_bias, json_schema_input_type=dict[str, _Bias] | None)
]
