"""Containers of the chart are given settings that their services know, and addresses at which the others are."""

import json
from pathlib import PurePath
from typing import Any

import pytest
import yaml
from tests.deploy.chart.fleets import fleets
from tests.deploy.chart.rendering import Chart, Object, Rendered, variables
from tests.deploy.chart.test_rendering import EVERYTHING, MINIMAL

from headrace.security.nats_conf import nats_conf
from headrace.settings import Settings, load

SERVICES = ("gateway", "tokenizer", "scheduler", "cache", "worker")
PORTS = {"tokenizer": 9101, "scheduler": 9102, "cache": 9103}
FLEETS = {"none": {}, "everything": EVERYTHING, **fleets()}


def service_of(pod: Object) -> str:
    return str(pod["containers"][0]["name"])


def settings_of(pod: Object, schemas: dict[str, type[Settings]]) -> dict[str, Any]:
    """Settings as the service reads them."""
    service = service_of(pod)
    environment = {name: value for name, value in variables(pod).items() if name.startswith("HEADRACE_")}
    return load(schemas[service], service, [], environment).model_dump()


@pytest.mark.parametrize("name", FLEETS)
def test_every_variable_is_a_setting(chart: Chart, schemas: dict[str, type[Settings]], name: str) -> None:
    """A setting that does not exist, or a bad value, would stop the start."""
    for pod in chart.render(FLEETS[name]).pods().values():
        if (service := service_of(pod)) in SERVICES:
            own = [each for each in variables(pod) if each.startswith("HEADRACE_")]
            assert [each for each in own if not each.startswith(f"HEADRACE_{service.upper()}_")] == []
            names = [each["name"] for each in pod["containers"][0]["env"]]
            assert len(names) == len(set(names))
            settings_of(pod, schemas)


def test_services_call_each_replica_by_its_name(chart: Chart, schemas: dict[str, type[Settings]]) -> None:
    rendered = chart.render({service: {"replicas": 2} for service in PORTS})
    called = settings_of(rendered.pods()["hr-headrace-gateway"], schemas)
    for service, port in PORTS.items():
        stateful = rendered.one("StatefulSet", service)
        headless = rendered.one("Service", service)
        assert stateful["spec"]["serviceName"] == headless["metadata"]["name"]
        assert headless["spec"]["clusterIP"] == "None"
        assert headless["spec"]["ports"][0]["port"] == port
        assert called[f"{service}_addresses"] == tuple(
            f"hr-headrace-{service}-{number}.hr-headrace-{service}:{port}" for number in range(2)
        )
        own = settings_of(rendered.pods()[f"hr-headrace-{service}"], schemas)
        assert own["listen_address"].endswith(f":{port}")
        (container,) = rendered.pods()[f"hr-headrace-{service}"]["containers"]
        assert {each["containerPort"] for each in container["ports"]} == {port, own["metrics_port"]}


def test_workers_and_tokenizers_read_the_same_folders(chart: Chart, schemas: dict[str, type[Settings]]) -> None:
    sets = [
        MINIMAL | {"name": "a", "model": "one"},
        MINIMAL | {"name": "b", "model": "two", "folder": "deep/er"},
        MINIMAL | {"name": "c", "model": "three", "weights": {"pull": "org/name"}},
        MINIMAL | {"name": "d", "model": "one", "weights": {"hostPath": "/srv/models"}},
        {"name": "e", "model": "four", "folder": "/opt/headrace/demo-model"},
    ]
    pods = chart.render({"workers": sets}).pods()
    tokenizer = pods["hr-headrace-tokenizer"]
    folders = {name: str(path) for name, path in settings_of(tokenizer, schemas)["models"].items()}
    assert folders == {
        "one": "/models/a",
        "two": "/models/b/deep/er",
        "three": "/models/c/org/name",
        "four": "/opt/headrace/demo-model",
    }
    for each in sets[:3]:
        worker = pods[f"hr-headrace-worker-{each['name']}"]
        assert str(settings_of(worker, schemas)["folder"]) == folders[str(each["model"])]
        for pod in (worker, tokenizer):
            mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
            assert mounted[f"weights-{each['name']}"] == f"/models/{each['name']}"
    for pod in (tokenizer, pods["hr-headrace-worker-c"]):
        (pull,) = pod["initContainers"]
        assert pull["command"] == ["headrace", "models", "pull", "org/name"]
        assert {"name": "HEADRACE_MODELS", "value": "/models/c"} in pull["env"]


def test_everything_that_is_mounted_is_there(chart: Chart) -> None:
    for values in FLEETS.values():
        rendered = chart.render(values)
        claims = {each["metadata"]["name"] for each in rendered.of("PersistentVolumeClaim")} | {"models", "c"}
        maps = {each["metadata"]["name"] for each in rendered.of("ConfigMap")}
        for name, pod in rendered.pods().items():
            sources = {each["name"]: each for each in pod.get("volumes", [])}
            templates = {
                each["metadata"]["name"]
                for item in rendered.of("StatefulSet")
                if item["metadata"]["name"] == name
                for each in item["spec"].get("volumeClaimTemplates", [])
            }
            for container in [*pod["containers"], *pod.get("initContainers", [])]:
                mounted = [each["name"] for each in container.get("volumeMounts", [])]
                assert set(mounted) <= set(sources) | templates, name
            assert {each["configMap"]["name"] for each in sources.values() if "configMap" in each} <= maps
            used = {
                each["persistentVolumeClaim"]["claimName"]
                for each in sources.values()
                if "persistentVolumeClaim" in each
            }
            assert used <= claims, name


def test_a_card_is_asked_for_by_its_device(chart: Chart, schemas: dict[str, type[Settings]]) -> None:
    rendered = chart.render({"workers": [MINIMAL | {"device": "a100-80g", "gpus": 2}]})
    pod = rendered.pods()["hr-headrace-worker-w"]
    settings = settings_of(pod, schemas)
    assert (settings["device"], settings["tensor_parallel_count"]) == ("cuda:0", 2)
    assert pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert pod["containers"][0]["image"] == "headrace-worker-gpu:0.1.0"
    profiles = rendered.one("ConfigMap", "profiles")["data"]
    assert PurePath(settings["device_profile"]).name in profiles
    node = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "NVIDIA-A100-SXM4-80GB" in json.dumps(node)
    chosen = chart.render({"workers": [MINIMAL | {"device": "l4", "nodeSelector": {"pool": "l4"}}]})
    assert "affinity" not in chosen.pods()["hr-headrace-worker-w"]


def test_a_setting_counts_more_than_the_chart(chart: Chart, schemas: dict[str, type[Settings]]) -> None:
    own = {"precision": "float16", "max_running_count": 7, "prefix_cache": False}
    pod = chart.render({"workers": [MINIMAL | {"device": "l4", "settings": own}]}).pods()["hr-headrace-worker-w"]
    settings = settings_of(pod, schemas)
    assert {name: settings[name] for name in own} == own
    gateway = {"allowed_hosts": ["a.example", "b.example"], "overflow": {"big": "small"}, "ttft_targets": {"batch": 60}}
    read = settings_of(chart.render({"gateway": {"settings": gateway}}).pods()["hr-headrace-gateway"], schemas)
    assert read["allowed_hosts"] == ("a.example", "b.example")
    assert read["overflow"] == {"big": "small"}


def test_ranks_of_several_nodes_meet_at_the_leader(chart: Chart, schemas: dict[str, type[Settings]]) -> None:
    pods = chart.render({"workers": [MINIMAL | {"device": "l4", "nodes": 3}]}).pods()
    leader = settings_of(pods["hr-headrace-worker-w leader"], schemas)
    assert leader["pipeline_parallel_count"] == 3
    assert leader["rendezvous"] == "$(LWS_LEADER_ADDRESS):9304"
    (follower,) = pods["hr-headrace-worker-w follower"]["containers"]
    assert "headrace.engine.parallel.follower" in follower["command"][-1]
    assert "livenessProbe" not in follower


def test_nats_lets_in_the_roles_of_the_certificates(chart: Chart, root: Any) -> None:
    written = (root / "deploy/helm/headrace/files/nats-certificates.json").read_text()
    assert written == nats_conf(PurePath("/certificates")), "run `make gen` and commit the result"
    rendered = chart.render(EVERYTHING)
    text = rendered.one("ConfigMap", "nats")["data"]["nats.conf"]
    assert "\\u" not in text, "NATS knows no such escapes"
    config = json.loads(text.replace("$NATS_ROUTES_PASSWORD", '"$NATS_ROUTES_PASSWORD"'))
    assert config["authorization"] == json.loads(written)["authorization"]


def test_servers_of_nats_know_each_other_by_a_password_of_their_own(chart: Chart) -> None:
    rendered = chart.render(EVERYTHING)
    password = rendered.one("Secret", "nats-routes")["stringData"]["password"]
    assert len(password) == 48
    assert password not in yaml.safe_dump([each for each in rendered.objects if each["kind"] != "Secret"])
    text = rendered.one("ConfigMap", "nats")["data"]["nats.conf"]
    assert '"authorization":{"password":$NATS_ROUTES_PASSWORD,"timeout":5,"user":"routes"}' in text
    (server,) = rendered.one("StatefulSet", "nats")["spec"]["template"]["spec"]["containers"]
    routes = server["command"][server["command"].index("--routes") + 1].split(",")
    assert routes == [
        f"nats://routes:$(NATS_ROUTES_PASSWORD)@hr-headrace-nats-{number}.hr-headrace-nats-peers:6222"
        for number in range(3)
    ]
    named = {each["name"]: each["valueFrom"].get("secretKeyRef", {}).get("name") for each in server["env"]}
    assert named["NATS_ROUTES_PASSWORD"] == "hr-headrace-nats-routes"
    others = [pod for name, pod in rendered.pods().items() if not name.startswith("hr-headrace-nats")]
    assert others
    assert "nats-routes" not in yaml.safe_dump(others)
    alone = chart.render()
    assert "routes" not in yaml.safe_dump([each for each in alone.objects if each["kind"] in ("Secret", "StatefulSet")])


def test_the_secret_is_in_no_argument_and_no_map(chart: Chart) -> None:
    rendered = chart.render()
    secret = rendered.one("Secret", "credential")["stringData"]["credential"]
    others = yaml.safe_dump([each for each in rendered.objects if each["kind"] != "Secret"])
    assert secret not in others
    assert 'token":$NATS_TOKEN' in rendered.one("ConfigMap", "nats")["data"]["nats.conf"]


def test_replicas_of_nats_are_those_of_its_buckets(chart: Chart, schemas: dict[str, type[Settings]]) -> None:
    for values, replicas in (({}, 1), ({"nats": {"replicas": 3}}, 3)):
        rendered: Rendered = chart.render(values)
        for service in ("gateway", "scheduler"):
            assert settings_of(rendered.pods()[f"hr-headrace-{service}"], schemas)["nats_replicas"] == replicas
    outside = chart.render({"nats": {"external": {"url": "nats://n.messaging:4222", "replicas": 3}}})
    read = settings_of(outside.pods()["hr-headrace-scheduler"], schemas)
    assert (read["nats_url"], read["nats_replicas"]) == ("nats://n.messaging:4222", 3)
    assert [each for each in outside.objects if "nats" in each["metadata"]["name"]] == []
