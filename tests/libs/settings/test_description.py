"""Every setting is shown with its value and origin, except for the values of secrets."""

import importlib
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import Field

from headrace.errors import ConfigError
from headrace.settings import Settings
from headrace.settings.addresses import Addresses
from headrace.settings.description import described
from headrace.settings.paths_by_name import PathsByName
from headrace.settings.secret import Secret, is_secret

KINDS = ("Gateway", "Tokenizer", "Scheduler", "Cache", "Worker")


class Demo(Settings):
    """Settings of a demonstration."""

    folder: Path
    """The folder."""
    http_port: int = Field(default=8000, ge=0)
    """The
    port."""
    strict: bool = False
    """Whether to be strict."""
    addresses: Addresses = ("a:1",)
    """Places."""
    models: PathsByName = Field(default_factory=dict)
    """Models by name."""
    password: Secret = ""
    """The password."""
    peer: str = "nats://a:1"
    """Place of others."""


def by_name(argv: list[str], environ: dict[str, str]) -> dict[str, dict[str, Any]]:
    found = described(Demo, "gateway", argv, environ)["settings"]
    return {setting["name"]: setting for setting in found}


def test_a_flag_that_repeats_a_value_is_not_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("[gateway]\nfolder = '/x'\nhttp_port = 1\npeer = 'nats://b:1'\n")
    argv = ["--config", str(file), "--folder", "/x", "--http-port", "2", "--peer", "nats://b:2"]
    found = by_name(argv, {"HEADRACE_GATEWAY_HTTP_PORT": "2"})
    told = {name: setting["origin"] for name, setting in found.items()}
    assert told["folder"] == f"file {file}"
    assert told["http_port"] == "environment HEADRACE_GATEWAY_HTTP_PORT"
    assert told["peer"] == "flag --peer"


def test_values_and_origins(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text("[gateway]\nhttp_port = 1\naddresses = 'b:1,c:2'\n")
    argv = ["--config", str(file), "--default", "strict=true", "--folder", "/x"]
    found = by_name(argv, {"HEADRACE_GATEWAY_HTTP_PORT": "2"})
    assert list(found) == list(Demo.model_fields)
    told = {name: (setting["value"], setting["origin"]) for name, setting in found.items()}
    assert told == {
        "folder": ("/x", "flag --folder"),
        "http_port": (2, "environment HEADRACE_GATEWAY_HTTP_PORT"),
        "strict": (True, "default of the process that started it"),
        "addresses": (["b:1", "c:2"], f"file {file}"),
        "models": ({}, "default"),
        "password": ("", "default"),
        "peer": ("nats://a:1", "default"),
    }
    assert (found["http_port"]["default"], found["http_port"]["help"]) == (8000, "The port.")


def test_secrets_are_masked() -> None:
    environ = {"HEADRACE_GATEWAY_PASSWORD": "geheim", "HEADRACE_GATEWAY_PEER": "nats://me:geheim@a:1,nats://geheim@b"}
    for argv in (["--folder", "/x"], []):
        assert "geheim" not in str(described(Demo, "gateway", argv, environ))
        found = by_name(argv, environ)
        assert (found["password"]["value"], found["password"]["secret"]) == ("***", True)
        assert found["peer"]["value"] == "nats://***@a:1,nats://***@b"


def test_what_is_missing_is_told_and_what_is_bad_is_refused() -> None:
    assert by_name(["--http-port", "3"], {})["folder"]["origin"] == "missing"
    assert by_name(["--http-port", "3"], {})["http_port"]["value"] == "3"
    with pytest.raises(ConfigError, match=r"gateway\.http_port = 'x' \(from flag --http-port\)"):
        described(Demo, "gateway", ["--folder", "/x", "--http-port", "x"], {})


def test_the_schema_admits_what_a_file_may_say() -> None:
    schema = described(Demo, "gateway", [], {})["schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    good: list[dict[str, Any]] = [
        {},
        {"addresses": "a:1,b:2"},
        {"addresses": ["a:1"], "models": {"a": "/x"}, "folder": "/x"},
    ]
    for table in good:
        jsonschema.validate(table, schema)
    bad: list[dict[str, Any]] = [{"zork": 1}, {"http_port": -1}, {"addresses": 3}]
    for table in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(table, schema)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_services_that_sound_secret_are(kind: str) -> None:
    schema = getattr(importlib.import_module(f"headrace.{kind.lower()}.config"), f"{kind}Settings")
    names = {name for name in schema.model_fields if re.search(r"(password|secret|credential|(?<!per_)token)$", name)}
    assert names == {"credential"}
    # An address may hold a password.
    names |= {name for name in schema.model_fields if name == "kv_store_url"}
    assert {name for name, field in schema.model_fields.items() if is_secret(field.json_schema_extra)} == names
    assert "$defs" not in described(schema, kind.lower(), [], {})["schema"]
