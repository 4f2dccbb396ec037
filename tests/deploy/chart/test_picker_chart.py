"""The endpoint picker's chart: objects that Kubernetes takes, settings that it knows, a pool that finds it."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.chart.conftest import TOOLS
from tests.deploy.chart.rendering import Chart, Object, Refused, variables
from tests.deploy.chart.validating import Validator

from headrace.scheduler.picker.config import PickerSettings
from headrace.settings import load

POOL = {"selector": {"app": "vllm"}}
EVERYTHING: dict[str, Any] = {
    "pool": {"name": "qwen", "selector": {"app": "vllm", "tier": "1"}, "port": 9000, "failureMode": "FailClose"},
    "image": {"registry": "r.example/team/", "digest": "sha256:" + "0" * 64, "pullSecrets": ["1"]},
    "settings": {"queue_seconds": 2, "objectives": {"nightly": "batch"}, "refused_late_classes": ["batch"]},
    "tls": {"existingSecret": "null"},
    "nodeSelector": {"disk": "true"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"podAffinity": {}},
    "priorityClassName": "high",
    "podAnnotations": {"a": "1"},
    "podLabels": {"team": "on"},
    "env": [{"name": "HEADRACE_PICKER_LOG_LEVEL", "value": "debug"}],
    "networkPolicy": {"gateways": [{"namespaceSelector": {}}], "monitoring": [{"podSelector": {}}]},
}
CASES = {"least": {"pool": POOL}, "everything": EVERYTHING, "no pool": {"pool": POOL | {"create": False}}}


@pytest.fixture(scope="module")
def picker(root: Path) -> Chart:
    return Chart(Path(TOOLS, "helm"), root / "deploy/helm/headrace-picker")


def by_kind(objects: list[Object], kind: str) -> Object:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_object_is_one_of_kubernetes(picker: Chart, validator: Validator, case: str) -> None:
    objects = picker.render(CASES[case]).objects
    assert len(objects) == (4 if case == "no pool" else 5)
    assert validator.faults(objects) == []
    assert "1 chart(s) linted, 0 chart(s) failed" in picker.lint(CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_the_picker_reads_its_settings(picker: Chart, case: str) -> None:
    (pod,) = picker.render(CASES[case]).pods().values()
    found = load(PickerSettings, "picker", [], variables(pod))
    port = CASES[case]["pool"].get("port", 8000)
    assert found.service == f"hr-picker-pods.serving.svc:{port}"
    assert {each["containerPort"] for each in pod["containers"][0]["ports"]} == {9002, found.metrics_port}
    if case == "everything":
        assert found.queue_seconds == 2
        assert (found.tls_certificate, found.tls_key) == (Path("/tls/tls.crt"), Path("/tls/tls.key"))


@pytest.mark.parametrize("case", CASES)
def test_the_pool_and_the_picker_mean_the_same_pods(picker: Chart, case: str) -> None:
    rendered = picker.render(CASES[case])
    asked, pods = sorted(rendered.of("Service"), key=lambda each: str(each["metadata"]["name"]))
    deployment = by_kind(rendered.objects, "Deployment")
    assert asked["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert pods["spec"]["clusterIP"] == "None"
    assert pods["spec"]["publishNotReadyAddresses"] is True
    assert pods["spec"]["selector"] == CASES[case]["pool"]["selector"]
    if case != "no pool":
        pool = by_kind(rendered.objects, "InferencePool")["spec"]
        assert pool["selector"]["matchLabels"] == pods["spec"]["selector"]
        assert pool["targetPorts"] == [{"number": pods["spec"]["ports"][0]["port"]}]
        assert pool["endpointPickerRef"]["name"] == asked["metadata"]["name"]
        assert pool["endpointPickerRef"]["port"]["number"] == asked["spec"]["ports"][0]["port"]


def test_pods_keep_the_restricted_standard(picker: Chart) -> None:
    (pod,) = picker.render(CASES["least"]).pods().values()
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "pool.selector is empty: give the labels of the Pods"),
        ({"pool": POOL, "preStopSeconds": 30}, "graceSeconds (30) must be more than preStopSeconds (30)"),
        ({"pool": POOL | {"port": 0}}, "/pool/port"),
        ({"pool": POOL, "replicas": 2}, "replicas"),
    ],
)
def test_values_that_cannot_work_are_refused_with_a_sentence(
    picker: Chart, values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Refused, match=re.escape(sentence)):
        picker.render(values)
