"""The chart renders objects that seven versions of Kubernetes take, and refuses values with a sentence."""

from typing import Any

import pytest
from tests.deploy.chart.fleets import fleets
from tests.deploy.chart.rendering import Chart, Refused
from tests.deploy.chart.validating import Validator

MINIMAL: dict[str, Any] = {"name": "w", "model": "m", "weights": {"claim": "c"}}
EVERYTHING: dict[str, Any] = {
    "certificates": {"enabled": True, "source": "cert-manager"},
    "nats": {"replicas": 3},
    "gateway": {
        "replicas": 2,
        "keys": {"existingSecret": "keys"},
        "tls": {"existingSecret": "tls"},
        "files": {"size": "10Gi"},
        "ingress": {"enabled": True, "host": "llm.example", "className": "nginx", "tlsSecret": "public"},
        "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["llm.example"]},
    },
    "workers": [
        MINIMAL | {"packed": {"size": "5Gi"}, "autoscaling": {"enabled": True, "min": 0}},
        MINIMAL | {"name": "x", "nodes": 2, "device": "l4"},
        MINIMAL | {"name": "y", "model": "other", "autoscaling": {"enabled": True, "prometheus": "http://p:9090"}},
    ],
    "monitoring": {
        "otlpEndpoint": "collector:4317",
        "podMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "test": {"keySecret": "key"},
}
KINDS = {
    *("Certificate", "ConfigMap", "Deployment", "HTTPRoute", "Ingress", "Issuer", "LeaderWorkerSet", "NetworkPolicy"),
    *("PersistentVolumeClaim", "Pod", "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "Secret"),
    *("ScaledObject", "Service", "ServiceAccount", "StatefulSet", "TriggerAuthentication"),
}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"gateway": {"replica": 2}}, "additional properties 'replica' not allowed"),
    ({"gatway": {}}, "additional properties 'gatway' not allowed"),
    ({"workers": [MINIMAL | {"device": "a100"}]}, "value must be one of"),
    ({"workers": [{"name": "w"}]}, "missing property 'model'"),
    ({"workers": [MINIMAL | {"name": "Upper"}]}, "does not match pattern"),
    ({"image": {"digests": {"gateway": "latest"}}}, "does not match pattern"),
    ({"nats": {"replicas": 2}}, "value must be one of 1, 3"),
    ({"nats": {"graceSeconds": 1}}, "nats.graceSeconds (1) must be more than nats.preStopSeconds (5)"),
    ({"gateway": {"drainSeconds": 300}}, "gateway.graceSeconds is 135, and its Pod needs 310 to stop"),
    ({"workers": [MINIMAL | {"drainSeconds": 60}]}, "workers w.graceSeconds is 30, and its Pod needs 70 to stop"),
    ({"workers": [MINIMAL, MINIMAL]}, "two sets of workers are called w"),
    ({"workers": [{"name": "w", "model": "m"}]}, "workers w: set weights, or the folder"),
    (
        {"workers": [MINIMAL | {"weights": {"claim": "c", "pull": "a/b"}}]},
        "weights come from one place, and claim and pull",
    ),
    ({"workers": [MINIMAL | {"weights": {"pull": "a/b:Q4_K_M"}}]}, "name it in folder"),
    ({"workers": [MINIMAL | {"gpus": 2}]}, "device is cpu, which has no GPUs"),
    ({"workers": [MINIMAL | {"engine": "vllm", "device": "l4"}]}, "image must name an image that has vLLM"),
    ({"workers": [MINIMAL | {"device": "l4", "nodes": 2, "gpus": 2}]}, "one GPU each"),
    ({"workers": [MINIMAL | {"autoscaling": {"enabled": True, "min": 3, "max": 2}}]}, "autoscaling.min is 3"),
    (
        {"workers": [MINIMAL | {"name": name, "autoscaling": {"enabled": True}} for name in ("v", "w")]},
        "workers v and w: one set of the workers of m can be scaled, not two",
    ),
    ({"certificates": {"enabled": True, "source": "secrets"}}, "set certificates.secretPrefix"),
    ({"gateway": {"files": {"existingClaim": "a", "size": "1Gi"}}}, "not both"),
    ({"gateway": {"replicas": 2, "files": {"size": "1Gi", "accessMode": "ReadWriteOnce"}}}, "take ReadWriteMany"),
    ({"gateway": {"httpRoute": {"enabled": True}}}, "needs parentRefs"),
    ({"gateway": {"ingress": {"enabled": True}}}, "gateway.ingress needs a host"),
]


def test_helm_finds_nothing_to_complain_about(chart: Chart) -> None:
    assert "0 chart(s) failed" in chart.lint()
    assert "0 chart(s) failed" in chart.lint(EVERYTHING)


@pytest.mark.parametrize("values", [{}, EVERYTHING, *fleets().values()], ids=["none", "everything", *fleets()])
def test_every_object_is_one_of_kubernetes(chart: Chart, validator: Validator, values: dict[str, Any]) -> None:
    rendered = chart.render(values)
    assert validator.faults(rendered.objects) == []
    names = [(each["kind"], each["metadata"]["name"]) for each in rendered.objects]
    assert len(names) == len(set(names))
    if values is EVERYTHING:
        assert {kind for kind, _ in names} == KINDS


def test_a_release_may_be_called_like_something_else_in_yaml(chart: Chart, validator: Validator) -> None:
    """Labels have quotes: `n` and `null` are no texts in YAML."""
    for name in ("n", "null", "true"):
        objects = chart.render({"nameOverride": name, "fullnameOverride": f"r-{name}"}).objects
        assert validator.faults(objects, ["1.37"]) == []
    with pytest.raises(Refused, match="does not match pattern"):
        chart.render({"fullnameOverride": "Ü"})


def test_the_validator_sees_faults(chart: Chart, validator: Validator) -> None:
    rendered = chart.render(EVERYTHING)
    for kind, spoil in (
        ("Deployment", {"replica": 1}),
        ("PodMonitor", {"podMetricEndpoints": []}),
        ("Certificate", {"secretNames": "x"}),
        ("LeaderWorkerSet", {"size": 2}),
        ("HTTPRoute", {"rule": []}),
        ("ScaledObject", {"maxReplicas": 3}),
        ("TriggerAuthentication", {"secretTargetRefs": []}),
    ):
        item = rendered.of(kind)[0]
        spoiled = item | {"spec": item["spec"] | spoil}
        assert len(validator.faults([spoiled], ["1.37"])) == 1, kind


@pytest.mark.parametrize(("values", "sentence"), REFUSED)
def test_what_cannot_work_is_refused_with_a_sentence(chart: Chart, values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        chart.render(values)
    assert sentence in str(refused.value)


def test_an_older_kubernetes_is_refused(chart: Chart) -> None:
    with pytest.raises(Refused, match="incompatible with Kubernetes"):
        chart.render({}, "--kube-version", "1.30.0")


def test_merge_lays_over_any_object(chart: Chart) -> None:
    label = {"metadata": {"labels": {"team": "a"}}}
    rendered = chart.render(
        {
            "gateway": {"merge": {"deployment": label | {"spec": {"revisionHistoryLimit": 2}}, "service": label}},
            "workers": [MINIMAL | {"merge": {"deployment": label}}],
            "nats": {"merge": {"statefulSet": label}},
        }
    )
    assert rendered.one("Deployment", "gateway")["spec"]["revisionHistoryLimit"] == 2
    labeled = [each["metadata"]["name"] for each in rendered.objects if each["metadata"]["labels"].get("team")]
    assert sorted(labeled) == [f"hr-headrace-{name}" for name in ("gateway", "gateway", "nats", "worker-w")]
    kept = rendered.one("Deployment", "gateway")
    assert kept["metadata"]["labels"]["app.kubernetes.io/component"] == "gateway"


def test_extra_objects_are_rendered(chart: Chart) -> None:
    extra = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-a"}},
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}",
    ]
    names = [each["metadata"]["name"] for each in chart.render({"extraObjects": extra}).of("ConfigMap")]
    assert {"hr-a", "b"} <= set(names)
