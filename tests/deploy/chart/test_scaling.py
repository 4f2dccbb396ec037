"""Sets of workers that are scaled ask the scheduler, or Prometheus, and leave their number to KEDA."""

from typing import Any

from tests.deploy.chart.rendering import Chart, Object
from tests.deploy.chart.test_rendering import MINIMAL

from headrace.scheduler.scaling.servicer import MODEL_KEY, OTHERS_KEY
from headrace.scheduler.scheduler import WANTED_WORKERS

SCALED = MINIMAL | {"replicas": 3, "autoscaling": {"enabled": True, "min": 2, "max": 9}}


def scaled_object(chart: Chart, *workers: dict[str, Any], **values: Any) -> Object:
    (found,) = chart.render({"workers": list(workers), **values}).of("ScaledObject")
    return dict(found["spec"])


def test_the_scheduler_pushes_to_a_deployment_without_a_number_of_its_own(chart: Chart) -> None:
    rendered = chart.render({"workers": [SCALED]})
    (scaled,) = rendered.of("ScaledObject")
    (deployment,) = [each for each in rendered.of("Deployment") if each["metadata"]["name"].endswith("-worker-w")]
    assert "replicas" not in deployment["spec"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert (scaled["spec"]["minReplicaCount"], scaled["spec"]["maxReplicaCount"]) == (2, 9)
    (trigger,) = scaled["spec"]["triggers"]
    assert trigger["type"] == "external-push"
    assert (trigger["metadata"][MODEL_KEY], trigger["metadata"][OTHERS_KEY]) == ("m", "0")
    (service,) = [each for each in rendered.of("Service") if each["metadata"]["name"].endswith("-scheduler")]
    host, port = trigger["metadata"]["scalerAddress"].split(":")
    assert host == f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    assert int(port) in [each["port"] for each in service["spec"]["ports"]]


def test_workers_of_the_model_that_are_not_scaled_are_taken_off(chart: Chart) -> None:
    fixed = MINIMAL | {"name": "l4", "replicas": 4}
    spec = scaled_object(chart, SCALED, fixed, MINIMAL | {"name": "z", "model": "other"})
    assert spec["triggers"][0]["metadata"][OTHERS_KEY] == "4"


def test_prometheus_is_asked_for_the_metric_of_the_scheduler(chart: Chart) -> None:
    spec = scaled_object(chart, SCALED | {"autoscaling": {"enabled": True, "prometheus": "http://p:9090"}})
    (trigger,) = spec["triggers"]
    assert f"max({WANTED_WORKERS._name}{{namespace=" in trigger["metadata"]["query"]
    assert (trigger["metadata"]["serverAddress"], trigger["metadata"]["threshold"]) == ("http://p:9090", "1")
    assert trigger["metadata"]["ignoreNullValues"] == "false", "what is not known must not scale to nothing"


def test_with_certificates_it_shows_the_operators_and_trusts_the_schedulers(chart: Chart) -> None:
    rendered = chart.render({"workers": [SCALED], "certificates": {"enabled": True, "source": "cert-manager"}})
    (scaled,) = rendered.of("ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    (authentication,) = rendered.of("TriggerAuthentication")
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    certificates = {each["spec"]["secretName"]: each["spec"] for each in rendered.of("Certificate")}
    (secret,) = {each["name"] for each in authentication["spec"]["secretTargetRef"]}
    assert "operator.headrace.internal" in certificates[secret]["dnsNames"]
    names = [name for spec in certificates.values() for name in spec.get("dnsNames", ())]
    assert trigger["metadata"]["scalerAddress"].split(":")[0] in names


def test_the_schedulers_port_is_open_to_scalers_where_there_are_any(chart: Chart) -> None:
    source = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}]

    def opened(worker: dict[str, Any]) -> list[Object]:
        rendered = chart.render({"workers": [worker], "networkPolicy": {"scalers": source}})
        policies = {each["metadata"]["name"]: each for each in rendered.of("NetworkPolicy")}
        (policy,) = [each for name, each in policies.items() if name.endswith("-scheduler")]
        return [rule for rule in policy["spec"]["ingress"] if rule.get("from") == source]

    assert opened(MINIMAL) == []
    assert [rule["ports"] for rule in opened(SCALED)] == [[{"port": "grpc"}]]


def test_models_without_workers_stay_known_and_their_requests_wait(chart: Chart) -> None:
    def variables(least: int) -> dict[str, str]:
        worker = SCALED | {"autoscaling": {"enabled": True, "min": least}}
        pods = chart.render({"workers": [worker]}).pods().values()
        return {each["name"]: each.get("value", "") for pod in pods for each in pod["containers"][0].get("env", [])}

    assert variables(0)["HEADRACE_GATEWAY_KEEPS_MODELS"] == "true"
    assert float(variables(0)["HEADRACE_SCHEDULER_NO_WORKER_SECONDS"]) >= 900
    assert "HEADRACE_GATEWAY_KEEPS_MODELS" not in variables(1)
