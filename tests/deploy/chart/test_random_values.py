"""Random values render objects that Kubernetes takes, or are refused with a sentence."""

import json
import re

import pytest
from tests.deploy.chart.random_values import RandomValues
from tests.deploy.chart.rendering import Chart, Refused
from tests.deploy.chart.validating import Validator

CASES = 200
SENTENCE = re.compile(r"execution error at \([^)]*\): [a-z].{15,}|at '/[^']*': .{10,}")
"""A sentence of the chart, or one of the schema with the place."""
INTERNAL = re.compile(r"nil pointer|wrong type|can't evaluate|is no YAML|error calling (?!fail)", re.IGNORECASE)
"""Words of a template that fell over."""


@pytest.mark.timeout(1200)
def test_random_values_render_or_are_refused_with_a_sentence(chart: Chart, validator: Validator) -> None:
    values = RandomValues(json.loads((chart.folder / "values.schema.json").read_text()), seed=31)
    counts = [judge(chart, validator, values.draw()) for _ in range(CASES)]
    assert CASES // 5 < counts.count(0) < CASES - CASES // 5, f"{counts.count(0)} of {CASES} were refused"
    assert len(set(counts)) > 10, "renderings are alike"


def judge(chart: Chart, validator: Validator, values: dict[str, object]) -> int:
    """Counts the objects of a rendering: none where it was refused as it should be."""
    try:
        objects = chart.render(values).objects
    except Refused as refused:
        objects, said = [], str(refused)
    else:
        said = ""
    assert bool(objects) != bool(SENTENCE.search(said)), (values, said)
    assert not INTERNAL.search(said), (values, said)
    assert validator.faults(objects, ["1.31", "1.37"]) == [], values
    return len(objects)
