"""Labels of metrics that live as long as the process have few values: none has one for each worker that ever was."""

import ast
from pathlib import Path

from tests.architecture.parsed_sources import nodes_of

KINDS = {"Counter", "Gauge", "Histogram", "Summary"}
UNBOUNDED = {"worker", "worker_id", "gateway", "gateway_id", "service_id", "address", "request_id", "tenant"}


def test_no_label_grows_with_the_workers(root: Path) -> None:
    found = {}
    for path in [*(root / "libs").rglob("*.py"), *(root / "services").rglob("*.py")]:
        for node in nodes_of(path, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in KINDS:
                labels = {str(each.value) for each in ast.walk(node) if isinstance(each, ast.Constant)}
                found[f"{path.relative_to(root)}:{node.lineno}"] = labels
    assert any("subject" in labels for labels in found.values())
    assert {place: labels & UNBOUNDED for place, labels in found.items() if labels & UNBOUNDED} == {}
