"""Validates objects of Kubernetes, in an environment of its own, which has the packages of requirements.txt.

It reads a request a line, `{"versions": ["1.31"], "objects": [...]}`, and answers with a list of faults.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
from cloudcoil.models.cert_manager import v1 as cert_manager
from cloudcoil.models.keda import v1alpha1 as keda
from cloudcoil.models.prometheus_operator import v1 as prometheus_operator

MODELS = {
    "monitoring.coreos.com/v1": prometheus_operator,
    "cert-manager.io/v1": cert_manager,
    "keda.sh/v1alpha1": keda,
}
"""Classes of the objects of other operators, by the name of their kind."""
SCHEMAS = json.loads(Path(__file__).with_name("custom_schemas.json").read_text())
"""Schemas of what no package has, by kind."""


def faults(item: dict[str, Any], versions: list[str]) -> Iterator[str]:
    """Yields what is wrong with an object."""
    for check in checks(item, versions):
        try:
            check()
        except (ValueError, kubernetes_validate.ValidationError, jsonschema.ValidationError) as error:
            yield f"{item.get('kind')} {item.get('metadata', {}).get('name')}: {error}"


def checks(item: dict[str, Any], versions: list[str]) -> list[Callable[[], object]]:
    """Returns the checks of an object. Each raises what it finds."""
    if item["kind"] in SCHEMAS:
        return [lambda: jsonschema.validate(item, SCHEMAS[item["kind"]])]
    if item["apiVersion"] in MODELS:
        return [lambda: is_kept(item)]
    return [lambda version=version: kubernetes_validate.validate(item, version, strict=True) for version in versions]  # type: ignore[misc]


def is_kept(item: dict[str, Any]) -> None:
    """Raises for a field that the class of an object refuses, or does not know."""
    model = getattr(MODELS[item["apiVersion"]], item["kind"])
    kept = model.model_validate(item).model_dump(by_alias=True, exclude_none=True, mode="json")
    if lost := sorted(set(paths(item["spec"])) - set(paths(kept["spec"]))):
        raise ValueError(f"unknown fields {lost}")


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Yields the path of each field."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield f"{path}.{name}"
            yield from paths(part, f"{path}.{name}")
    elif isinstance(value, list):
        for part in value:
            yield from paths(part, f"{path}[]")


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        found = [fault for item in request["objects"] for fault in faults(item, request["versions"])]
        print(json.dumps(found), flush=True)
