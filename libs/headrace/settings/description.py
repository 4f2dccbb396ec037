"""Description of a service's settings: their values, and where each came from."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from headrace.settings.secret import MASK, is_secret, without_users
from headrace.settings.settings import Settings, SettingsLayer, explain, read_layers

DESCRIBE_FLAG = "--describe-settings"
"""Flag with which a service prints its settings as JSON instead of starting."""
MISSING = "missing"
"""Origin of a setting that must be given and was not."""


def described(schema: type[Settings], section: str, argv: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns, as JSON has it, every setting (`settings`) and the JSON schema of the section's table (`schema`).
    Secrets are masked. Raises ConfigError for what no service would start with."""
    layers = read_layers(schema, section, argv, environ)
    merged = {name: value for layer in layers for name, value in layer.values.items()}
    origins = _origins(layers)
    values, texts = _validated(schema, section, merged, origins), schema.help_texts()
    settings = [
        {
            "name": name,
            "value": _shown(values.get(name), field),
            "default": _shown(_default(field), field),
            "origin": origins.get(name, MISSING if field.is_required() else "default"),
            "secret": is_secret(field.json_schema_extra),
            "help": " ".join(texts.get(name, "").split()),
        }
        for name, field in schema.model_fields.items()
    ]
    return {"section": section, "settings": settings, "schema": table_schema(schema)}


def table_schema(schema: type[Settings]) -> dict[str, Any]:
    """Returns the JSON schema (draft 2020-12) of a service's table in a configuration file. Nothing in it is required:
    flags and environment may give it. Lists and mappings may be written as text."""
    found = schema.model_json_schema()
    properties: dict[str, Any] = found["properties"]
    for name, text in schema.help_texts().items():
        properties[name]["description"] = text
    for name, field in schema.model_fields.items():
        if any(isinstance(each, BeforeValidator) for each in field.metadata):
            told = {key: properties[name].pop(key) for key in ("default", "description") if key in properties[name]}
            properties[name] = {"anyOf": [properties[name], {"type": "string"}]} | told
    return {name: value for name, value in found.items() if name != "required"}


def _origins(layers: Sequence[SettingsLayer]) -> dict[str, str]:
    """Says where each value came from. A flag that repeats a value changed nothing: `headrace up` passes on addresses
    that it read where the service does."""
    origins: dict[str, str] = {}
    texts: dict[str, str] = {}
    for layer in layers:
        for name, value in layer.values.items():
            if layer.origin != "flag" or str(value) != texts.get(name):
                origins[name] = layer.origin_of(name)
            texts[name] = str(value)
    return origins


def _validated(
    schema: type[Settings], section: str, merged: Mapping[str, Any], origins: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the values as the service would see them. If required values are missing, returns only the given ones."""
    try:
        return schema.model_validate(merged).model_dump(mode="json")
    except ValidationError as error:
        if any(each["type"] != MISSING for each in error.errors()):
            raise explain(error, section, origins) from None
    return {name: _default(field) for name, field in schema.model_fields.items()} | dict(merged)


def _default(field: FieldInfo) -> Any:
    return None if field.is_required() else field.get_default(call_default_factory=True)


def _shown(value: Any, field: FieldInfo) -> Any:
    if is_secret(field.json_schema_extra) and value:
        return MASK
    return without_users(to_jsonable_python(value))
