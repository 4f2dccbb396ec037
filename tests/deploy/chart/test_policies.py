"""Containers of the chart may do what they need, answer probes of their own, stop in time, and let in their callers."""

from typing import Any

import pytest
from tests.deploy.chart.fleets import fleets
from tests.deploy.chart.rendering import Chart, Object, Rendered
from tests.deploy.chart.test_rendering import EVERYTHING, MINIMAL

from headrace.rpc.server import ROUTABLE

CALLERS = {
    "tokenizer": {"gateway"},
    "scheduler": {"gateway"},
    "cache": {"gateway", "scheduler", "worker"},
    "worker": {"gateway", "scheduler", "cache", "worker"},
    "nats": {"gateway", "tokenizer", "scheduler", "cache", "worker"},
}
"""Callers of each role, as docs/guide/deploy.md has it for certificates."""
PORTS = {"tokenizer": "grpc", "scheduler": "grpc", "cache": "grpc", "worker": "grpc", "nats": "nats"}
FLEETS = {"none": {}, "everything": EVERYTHING, **fleets()}
ROLE = "app.kubernetes.io/component"


def long_running(rendered: Rendered) -> dict[str, Object]:
    """Pods that are no test and follow no other."""
    return {name: pod for name, pod in rendered.pods().items() if "test" not in name and "follower" not in name}


@pytest.mark.parametrize("name", FLEETS)
def test_pods_keep_the_restricted_standard(chart: Chart, name: str) -> None:
    """The standard of that name of Kubernetes, whose checks are these."""
    volumes = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "image", "projected"}
    for pod in chart.render(FLEETS[name]).pods().values():
        own = pod["securityContext"]
        assert own["runAsNonRoot"] is True
        assert own["runAsUser"] == 10001
        assert own["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"memory"} <= set(container["resources"]["limits"])
        for volume in pod.get("volumes", []):
            assert set(volume) - {"name"} <= volumes


@pytest.mark.parametrize("name", FLEETS)
def test_pods_have_the_time_to_stop(chart: Chart, name: str) -> None:
    for pod in long_running(chart.render(FLEETS[name])).values():
        (container,) = pod["containers"]
        waited = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        drained = [int(each["value"]) for each in container["env"] if each["name"].endswith("_DRAIN_SECONDS")]
        assert waited >= 1
        assert waited + sum(drained) < pod["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("certificates", [False, True])
def test_probes_ask_the_container_itself(chart: Chart, certificates: bool) -> None:
    """None hangs on another service: the gateway's /ready, which needs a worker, is no probe."""
    rendered = chart.render({"certificates": {"enabled": certificates}})
    for name, pod in long_running(rendered).items():
        (container,) = pod["containers"]
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            asked = container[probe]
            if "httpGet" in asked:
                assert asked["httpGet"]["path"].partition("?")[0] in ("/health", "/healthz"), name
                assert asked["httpGet"]["port"] in ports
                continue
            about = ROUTABLE if probe == "readinessProbe" else ""
            if certificates:
                assert asked["exec"]["command"] == ["python", "/opt/headrace/health.py", *about.split()]
            else:
                assert asked["grpc"]["port"] == ports["grpc"]
                assert asked["grpc"].get("service", "") == about


def test_a_model_may_take_as_long_to_load_as_is_said(chart: Chart) -> None:
    rendered = chart.render({"workers": [MINIMAL | {"startupSeconds": 3600}]})
    probe = rendered.pods()["hr-headrace-worker-w"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 3600
    assert rendered.one("Deployment", "worker-w")["spec"]["progressDeadlineSeconds"] > 3600


def test_a_volume_of_one_pod_is_given_up_before_the_next_takes_it(chart: Chart) -> None:
    """Otherwise an update would wait for ever where the new Pod is on another node."""
    for mode, strategy in (("ReadWriteOnce", "Recreate"), ("ReadWriteMany", "RollingUpdate")):
        rendered = chart.render({"gateway": {"files": {"size": "1Gi", "accessMode": mode}}})
        assert rendered.one("Deployment", "gateway")["spec"]["strategy"]["type"] == strategy


def test_no_budget_keeps_the_only_pod_of_a_role(chart: Chart) -> None:
    assert chart.render().of("PodDisruptionBudget") == []
    several = {role: {"replicas": 2} for role in ("gateway", "tokenizer", "scheduler", "cache")}
    rendered = chart.render(several | {"nats": {"replicas": 3}, "workers": [MINIMAL | {"replicas": 2}]})
    budgets = {each["metadata"]["name"]: each["spec"] for each in rendered.of("PodDisruptionBudget")}
    roles = ("cache", "gateway", "nats", "scheduler", "tokenizer", "worker-w")
    assert sorted(budgets) == [f"hr-headrace-{role}" for role in roles]
    for spec in budgets.values():
        assert spec["maxUnavailable"] == 1
        assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def admitted(policy: Object, port: str) -> set[str] | None:
    """Roles that may call a port; None for everybody."""
    roles: set[str] = set()
    for rule in policy["spec"]["ingress"]:
        if rule["ports"] and port not in [each["port"] for each in rule["ports"]]:
            continue
        if "from" not in rule:
            return None
        roles |= {each["podSelector"]["matchLabels"][ROLE] for each in rule["from"] if "podSelector" in each}
    return roles


def test_a_port_is_open_to_those_that_call_it(chart: Chart) -> None:
    rendered = chart.render({"workers": [MINIMAL]})
    for role, callers in CALLERS.items():
        policy = rendered.one("NetworkPolicy", "worker-w" if role == "worker" else role)
        assert policy["spec"]["podSelector"]["matchLabels"][ROLE] == role
        assert admitted(policy, PORTS[role]) == callers
        assert admitted(policy, "monitor" if role == "nats" else "metrics") is None
    gateway = rendered.one("NetworkPolicy", "gateway")
    assert admitted(gateway, "http") is admitted(gateway, "grpc") is None
    assert chart.render({"networkPolicy": {"enabled": False}}).of("NetworkPolicy") == []


def test_clients_and_monitoring_may_be_named(chart: Chart) -> None:
    clients = [{"podSelector": {"matchLabels": {ROLE: "client"}}}]
    rendered = chart.render({"networkPolicy": {"clients": clients, "monitoring": clients}, "workers": [MINIMAL]})
    assert admitted(rendered.one("NetworkPolicy", "gateway"), "grpc") == {"client"}
    assert admitted(rendered.one("NetworkPolicy", "gateway"), "http") == {"client", "test"}
    assert admitted(rendered.one("NetworkPolicy", "worker-w"), "metrics") == {"client"}


def test_ranks_of_several_nodes_reach_each_other_at_any_port(chart: Chart) -> None:
    rendered = chart.render({"workers": [MINIMAL | {"device": "l4", "nodes": 2}]})
    policy = rendered.one("NetworkPolicy", "worker-w")
    (open_rule,) = [rule for rule in policy["spec"]["ingress"] if not rule["ports"]]
    (peer,) = open_rule["from"]
    assert peer["podSelector"]["matchLabels"]["headrace/workers"] == "w"


def test_images_are_named_by_registry_tag_and_digest(chart: Chart) -> None:
    digest = f"sha256:{'a' * 64}"
    image: dict[str, Any] = {"registry": "registry.example/team", "tag": "1.2.3", "digests": {"cache": digest}}
    image |= {"pullSecrets": ["login"], "pullPolicy": "Always"}
    pods = chart.render({"image": image}).pods()
    images = {name: pod["containers"][0]["image"] for name, pod in long_running(chart.render({"image": image})).items()}
    assert images["hr-headrace-cache"] == f"registry.example/team/headrace-cache@{digest}"
    assert images["hr-headrace-gateway"] == "registry.example/team/headrace-gateway:1.2.3"
    assert pods["hr-headrace-gateway"]["imagePullSecrets"] == [{"name": "login"}]


def test_prometheus_names_jobs_as_dashboards_and_alerts_do(chart: Chart, root: Any) -> None:
    rendered = chart.render(EVERYTHING)
    (monitor,) = rendered.of("PodMonitor")
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        jobs = [each for each in endpoint["relabelings"] if each["targetLabel"] == "job"]
        assert jobs[0]["sourceLabels"] == [f"__meta_kubernetes_pod_label_{ROLE.replace('.', '_').replace('/', '_')}"]
    dashboards = {
        each["metadata"]["name"] for each in rendered.of("ConfigMap") if "dashboard" in each["metadata"]["name"]
    }
    files = (root / "deploy/observability/grafana/dashboards").glob("*.json")
    assert dashboards == {f"hr-headrace-dashboard-{path.stem}" for path in files}
    (rules,) = rendered.of("PrometheusRule")
    assert len(rules["spec"]["groups"]) >= 1


def test_alerts_link_to_the_runbook_that_is_named(chart: Chart) -> None:
    page = "https://wiki.example/operate"
    (rules,) = chart.render({"monitoring": {"rules": {"enabled": True, "runbook": page}}}).of("PrometheusRule")
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert alerts
    assert all(rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}" for rule in alerts)


def test_pods_are_replaced_when_their_settings_change(chart: Chart) -> None:
    def note(values: dict[str, Any], kind: str, name: str) -> str:
        template = chart.render(values).one(kind, name)["spec"]["template"]
        return str(template["metadata"]["annotations"]["headrace/settings"])

    three = {"nats": {"replicas": 3}}
    assert note({}, "StatefulSet", "nats") != note(three, "StatefulSet", "nats")
    assert note({}, "StatefulSet", "cache") == note(three, "StatefulSet", "cache")
