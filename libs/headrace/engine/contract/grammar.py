"""Grammar that an output must follow: plain data."""

import enum
from dataclasses import dataclass, field


class GrammarKind(enum.Enum):
    """The language that a grammar is written in."""

    JSON_SCHEMA = "json_schema"
    """The text is a JSON schema, and the output a JSON value that it admits."""
    JSON_OBJECT = "json_object"
    """Any JSON object. The text is empty."""
    REGEX = "regex"
    """The text is a regular expression that the whole output matches. No look-around, no back-references."""
    LARK = "lark"
    """The text is a Lark grammar that begins with `start:`, or GBNF that begins with `root ::=`."""
    CHOICE = "choice"
    """The text is a JSON array of strings, and the output one of them."""
    LARK_WITH_SCHEMAS = "lark_with_schemas"
    """The text is a JSON object: a Lark grammar as `lark`, and as `schemas` the JSON schemas that it names with `@`."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """Form that the whole output of one request must have. Equal if kind and text are."""

    kind: GrammarKind
    text: str = ""
    param: str = field(default="grammar", compare=False)
    """Name of the request field that the grammar came from: errors name it."""
