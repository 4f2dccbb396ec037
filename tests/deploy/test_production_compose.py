"""The compose file for production, over the two that it is used with, fits the services that it starts."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.settings import Settings, load

ReadCompose = Callable[..., dict[str, Any]]
Schemas = dict[str, type[Settings]]
FILES = ("docker-compose.yml", "deploy/docker/certificates.yml", "deploy/docker/production.yml")
HEADRACE = ("gateway", "tokenizer", "scheduler", "cache", "worker", "second-worker")
FOR_ONE_MACHINE = "deploy/observability/prometheus.yml"
ALERTMANAGER = "deploy/observability/alertmanager.yml"
PROMETHEUS = "deploy/observability/prometheus-production.yml"


@pytest.fixture(scope="module")
def services(read_compose: ReadCompose) -> dict[str, dict[str, Any]]:
    """The services of all three files, merged as Compose does: mappings by key, volumes by their target."""
    merged: dict[str, dict[str, Any]] = {}
    for path in FILES:
        for name, service in read_compose(path)["services"].items():
            merged[name] = _merged(merged.get(name, {}), service)
    return merged


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    found = old | new
    for key in ("environment", "depends_on"):
        found[key] = old.get(key, {}) | new.get(key, {})
    volumes = {volume.split(":")[1]: volume for volume in [*old.get("volumes", []), *new.get("volumes", [])]}
    return found | {"volumes": list(volumes.values())}


def settings_of(services: dict[str, Any], schemas: Schemas, name: str) -> dict[str, Any]:
    kind = name.removeprefix("second-")
    return load(schemas[kind], kind, [], services[name]["environment"]).model_dump()


def test_the_gateway_asks_for_keys_keeps_usage_and_speaks_https(services: dict[str, Any], schemas: Schemas) -> None:
    """Each file lies in a folder that is mounted, and usage on a volume."""
    gateway = settings_of(services, schemas, "gateway")
    folders = {volume.split(":")[1] for volume in services["gateway"]["volumes"]}
    for name in ("keys_file", "tls_certificate", "tls_key", "certificates"):
        assert any(Path(gateway[name]).is_relative_to(folder) for folder in folders), name
    assert Path(gateway["usage_folder"]).is_relative_to("/var/lib/headrace")
    assert not gateway["keys_optional"]
    assert "gateway" in gateway["allowed_hosts"]
    check = services["gateway"]["healthcheck"]["test"][-1]
    assert "https://127.0.0.1:8000/ready" in check
    compile(check, "healthcheck", "exec")


def test_two_models_are_served_and_the_tokenizer_has_both(services: dict[str, Any], schemas: Schemas) -> None:
    workers = [settings_of(services, schemas, name) for name in ("worker", "second-worker")]
    assert {worker["model"]: worker["folder"] for worker in workers} == settings_of(services, schemas, "tokenizer")[
        "models"
    ]
    assert settings_of(services, schemas, "gateway")["model_order"] == tuple(worker["model"] for worker in workers)
    for name in ("service_id", "advertise_address"):
        assert workers[0][name] != workers[1][name]


def test_the_second_worker_differs_from_the_first_in_its_model_alone(services: dict[str, Any]) -> None:
    """All else that a worker is given, it has too."""
    first, second = services["worker"], services["second-worker"]
    assert first["environment"].keys() == second["environment"].keys()
    differing = {name for name, value in first["environment"].items() if second["environment"][name] != value}
    assert {name.removeprefix("HEADRACE_WORKER_") for name in differing} == {
        "SERVICE_ID",
        "ADVERTISE_ADDRESS",
        "MODEL",
    }
    assert [volume.split(":")[1] for volume in first["volumes"]] == [v.split(":")[1] for v in second["volumes"]]
    for key in ("build", "image", "read_only", "cap_drop", "security_opt", "restart", "stop_grace_period", "deploy"):
        assert first[key] == second[key], key


def test_all_services_talk_mutual_tls_and_have_their_limits(services: dict[str, Any], schemas: Schemas) -> None:
    for name in HEADRACE:
        assert settings_of(services, schemas, name)["certificates"] == Path("/certificates")
    for name in (*HEADRACE, "nats"):
        limits = services[name]["deploy"]["resources"]["limits"]
        assert float(limits["cpus"]) > 0
        assert limits["memory"]


def test_prometheus_finds_each_service_where_it_shows_its_metrics(
    services: dict[str, Any], schemas: Schemas, root: Path
) -> None:
    """By the names of containers, and with the jobs that alerts and dashboards know."""
    assert f"./{PROMETHEUS}:/etc/prometheus/prometheus.yml:ro" in services["prometheus"]["volumes"]
    config, plain = (yaml.safe_load((root / path).read_text()) for path in (PROMETHEUS, FOR_ONE_MACHINE))
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    assert list(jobs) == [job["job_name"] for job in plain["scrape_configs"]]
    assert config["rule_files"] == plain["rule_files"]
    found = set()
    for job in ("tokenizer", "scheduler", "cache", "worker"):
        (names,) = jobs[job]["dns_sd_configs"]
        for name in names["names"]:
            assert settings_of(services, schemas, name)["metrics_port"] == names["port"]
            found.add(name)
    assert found == set(HEADRACE) - {"gateway"}
    assert jobs["gateway"]["scheme"] == "https"
    assert jobs["gateway"]["static_configs"] == [{"targets": ["gateway:8000"]}]


def test_alerts_reach_people(services: dict[str, Any], root: Path) -> None:
    """Prometheus knows the Alertmanager, which has a receiver for each severity, and hides alerts that there are."""
    prometheus = yaml.safe_load((root / PROMETHEUS).read_text())
    (found,) = prometheus["alerting"]["alertmanagers"]
    assert found["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    own = services["alertmanager"]
    assert f"./{ALERTMANAGER}:/etc/alertmanager/alertmanager.yml:ro" in own["volumes"]
    folders = {volume.split(":")[-2] for volume in own["volumes"]}
    config = yaml.safe_load((root / ALERTMANAGER).read_text())
    receivers = {receiver["name"]: receiver["webhook_configs"] for receiver in config["receivers"]}
    assert {Path(hook["url_file"]).parent.as_posix() for (hook,) in receivers.values()} <= folders
    (urgent,) = config["route"]["routes"]
    assert {config["route"]["receiver"], urgent["receiver"]} == receivers.keys()
    rules = yaml.safe_load((root / "deploy/observability/alerts.yml").read_text())["groups"]
    alerts = {rule["alert"]: rule["labels"]["severity"] for group in rules for rule in group["rules"]}
    assert urgent["matchers"] == ['severity="critical"']
    assert set(alerts.values()) == {"critical", "warning"}
    named = re.findall(r"\b[A-Z][A-Za-z]+\b", str(config["inhibit_rules"]))
    assert named
    assert set(named) <= alerts.keys()


def test_grafana_lets_in_only_those_with_a_password(services: dict[str, Any]) -> None:
    assert services["grafana"]["environment"]["GF_AUTH_ANONYMOUS_ENABLED"] == "false"
