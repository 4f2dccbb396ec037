"""Lists in bodies make one error at most: half a million of them would take seconds and half a gigabyte."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.gateway import app  # noqa: F401 - imports all bodies
from headrace.gateway.api.entry.model_body import ModelBody

APART = frozenset({"serialization", "metadata", "cls", "ref", "default", "json_schema_input_schema"})
"""Parts of a schema that validate nothing."""


def bodies(kind: type[ModelBody] = ModelBody) -> Iterator[type[ModelBody]]:
    yield kind
    for each in kind.__subclasses__():
        yield from bodies(each)


def unbounded(schema: Any, place: str = "") -> Iterator[str]:
    """Places of lists whose validation goes on behind a mistake."""
    if isinstance(schema, dict):
        if schema.get("type") == "list" and not schema.get("fail_fast"):
            yield place
        for name, value in schema.items():
            if name == "fields":
                for field, inner in value.items():
                    yield from unbounded(inner, f"{place}.{field}")
            elif name not in APART:
                yield from unbounded(value, place)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from unbounded(value, place)


BODIES = {kind.__name__: kind for kind in bodies()}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_validation_of_a_list_ends_at_its_first_mistake(name: str) -> None:
    assert list(unbounded(BODIES[name].__pydantic_core_schema__)) == []
