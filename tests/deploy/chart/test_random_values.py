"""Random values render objects that Kubernetes takes, or are refused with a sentence."""

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.deploy.chart.rendering import Chart, Refused
from tests.deploy.chart.validating import Validator

CASES = 200
SENTENCE = re.compile(r"execution error at \([^)]*\): [a-z].{15,}|at '/[^']*': .{10,}")
"""A sentence of the chart, or one of the schema with the place."""
INTERNAL = re.compile(r"nil pointer|wrong type|can't evaluate|is no YAML|error calling (?!fail)", re.IGNORECASE)
"""Words of a template that fell over."""
TEXTS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_./: {}\"'#\n", max_size=12)


def strategy(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema, with some that it does not allow."""
    if "$ref" in schema:
        return strategy(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        low = schema["minimum"]
        return st.integers(low, min(schema.get("maximum", 100), low + 100)) | st.just(low)
    if kind == "string":
        known = st.just("") | st.sampled_from(["a", "a/b", "10Gi", "x-1", "/srv/models", "nats://n:4222", "15s", "h:1"])
        return known | TEXTS
    if kind == "array":
        return st.lists(strategy(schema["items"], root), max_size=2)
    if kind == "object" and schema.get("properties"):
        parts = {name: strategy(part, root) for name, part in schema["properties"].items()}
        required = {name: parts.pop(name) for name in schema.get("required", ())}
        return st.fixed_dictionaries(required, optional=parts) | st.just({}) if not required else st.fixed_dictionaries(
            required, optional=parts
        )
    return st.just({})


def few(values: dict[str, Any]) -> dict[str, Any]:
    """Values without those of objects that Kubernetes would have to judge: the chart hands them on."""
    return {name: part for name, part in values.items() if name not in ("extraObjects", "global")}


@pytest.mark.timeout(1200)
def test_random_values_render_or_are_refused_with_a_sentence(chart: Chart, validator: Validator) -> None:
    schema = json.loads((chart.folder / "values.schema.json").read_text())
    outcomes = {"rendered": 0, "refused": 0}

    @settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(strategy(schema, schema))
    def judge(values: dict[str, Any]) -> None:
        try:
            rendered = chart.render(few(values))
        except Refused as refused:
            outcomes["refused"] += 1
            assert SENTENCE.search(str(refused)), refused
            assert not INTERNAL.search(str(refused)), refused
            return
        outcomes["rendered"] += 1
        assert validator.faults(rendered.objects, ["1.31", "1.37"]) == []

    judge()
    assert min(outcomes.values()) >= CASES // 10, outcomes
