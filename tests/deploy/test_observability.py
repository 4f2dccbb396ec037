"""Dashboards, alerts and their wiring speak of metrics, services and ports that exist."""

import asyncio
import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY, CollectorRegistry, Metric
from tests.deploy.scraped import NEEDS
from tests.unpacked_packages import PROMETHEUS, unpacked, why_not

from headrace.errors.table import ROWS
from headrace.gateway.config import GatewaySettings
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.platform_metrics import PER_WORKER, SUMMED, PlatformMetrics
from headrace.gateway.request.ledger import Ledger

SERVICES = ["gateway", "tokenizer", "scheduler", "cache", "worker"]
EXPORTERS = ["nats", "gpu", "otel-collector"]
METRIC_MODULES = [
    "headrace.bus.bus",
    "headrace.gateway.timing.request_metrics",
    "headrace.gateway.timing.token_meter",
    "headrace.gateway.delivery.token_stream",
    "headrace.gateway.resumption.journals",
    "headrace.gateway.delivery.placement.self_placement",
    "headrace.gateway.access.limits.limiter",
    "headrace.gateway.access.limits.shared_budgets",
    "headrace.gateway.access.usage_book",
    "headrace.gateway.batches.storage.free_space",
    "headrace.cache.block_lists",
    "headrace.cache.shared_kv.shared_metrics",
    "headrace.worker.transfer.kept.kept_metrics",
    "headrace.worker.transfer.stored.store_metrics",
    "headrace.scheduler.scheduler",
]
FOLDER = "deploy/observability"
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"], "gauge": [""]}
NOT_METRICS = re.compile(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring)\s*\([^)]*\)')
NAME = re.compile(r"\b([a-zA-Z_:][\w:]*)\b(?!\s*\()")
PROMTOOL = shutil.which("promtool") or str(unpacked(PROMETHEUS) / "promtool")
OPERATORS = {"and", "or", "unless", "offset", "bool"}
OF_PROMETHEUS = {"up", "ALERTS"}
CHOSEN_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OF_GATEWAYS = (
    "headrace_requests_total",
    "headrace_requests_open",
    "headrace_stage_seconds",
    "headrace_http_requests",
    "headrace_good_output",
    "headrace_response_cache",
    "headrace_prompt_tokens",
    "headrace_cached_tokens",
    "headrace_output_tokens",
    "headrace_time_to_first",
    "headrace_inter_token",
    "headrace_request_duration",
    "headrace_latency_budgets",
    "headrace_self_placements",
    "headrace_resubmissions",
    "headrace_moves",
    "headrace_resumed",
    "headrace_rate_limited",
)
"""Metrics of which each gateway counts its own part. What it tells of workers and queues, all gateways tell alike."""
GATEWAY_FILTER, WORKER_FILTER = 'instance=~"$gateway"', 'worker=~"$worker"'


def read_yaml(root: Path, path: str) -> dict[str, Any]:
    content = yaml.safe_load((root / FOLDER / path).read_text())
    assert isinstance(content, dict)
    return content


@pytest.fixture
def dashboards(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((root / FOLDER / "grafana/dashboards").glob("*.json"))]


@pytest.fixture
def rules(root: Path) -> list[dict[str, Any]]:
    return [rule for group in read_yaml(root, "alerts.yml")["groups"] for rule in group["rules"]]


@pytest.fixture
def expressions(dashboards: list[dict[str, Any]], rules: list[dict[str, Any]]) -> list[str]:
    """Every query of dashboards and alerts that our own services answer."""
    own = [panel for panel in panels(*dashboards) if not NEEDS.search(panel["description"])]
    return [target["expr"] for panel in own for target in panel["targets"]] + [rule["expr"] for rule in rules]


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """The names of all series that the services can export, as Prometheus sees them."""

    for module in METRIC_MODULES:
        importlib.import_module(module)

    async def collect() -> list[Metric]:
        platform = CollectorRegistry(auto_describe=False)
        nobody: Any = None
        platform.register(PlatformMetrics(Fleet(GatewaySettings(), nobody), Ledger(1)))
        return [*REGISTRY.collect(), *platform.collect()]

    return {
        family.name + suffix for family in asyncio.run(collect()) for suffix in SUFFIXES.get(family.type, [""])
    } | OF_PROMETHEUS


def panels(*dashboards: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (panel for dashboard in dashboards for panel in dashboard["panels"] if panel["type"] != "row")


def metrics_in(expression: str) -> set[str]:
    """Metrics that a PromQL expression reads."""
    return set(NAME.findall(NOT_METRICS.sub(" ", expression))) - OPERATORS


def test_metric_names_are_found_in_expressions() -> None:
    """The reader that the next tests rely on."""
    expression = 'sum by (le) (rate(a_total{x="b"}[5m])) / c > 0 unless d offset 5m or absent(e)'
    assert metrics_in(expression) == {"a_total", "c", "d", "e"}


def test_every_metric_in_use_is_exported(root: Path, expressions: list[str], exported: set[str]) -> None:
    """A panel or an alert on a name without an exporter would stay silent. Exporters have names too."""
    others = {line for path in (root / FOLDER / "exporters").glob("*.txt") for line in path.read_text().splitlines()}
    assert len(expressions) > 90
    assert set().union(*map(metrics_in, expressions)) - exported - others == set()


def test_metrics_of_other_exporters_are_on_their_lists(root: Path, dashboards: list[dict[str, Any]]) -> None:
    """The list of each names where it is from. Nothing is listed that no panel reads."""
    used: dict[str, set[str]] = {}
    for panel in panels(*dashboards):
        if found := NEEDS.search(panel["description"]):
            used.setdefault(found[1], set()).update(*(metrics_in(target["expr"]) for target in panel["targets"]))
    listed = {
        path.stem: {line for line in path.read_text().splitlines() if not line.startswith("#")}
        for path in (root / FOLDER / "exporters").glob("*.txt")
    }
    assert set(used) == {"dcgm-exporter", "prometheus-nats-exporter"}
    assert used == listed


def test_labels_in_use_exist(expressions: list[str]) -> None:
    """Series are chosen and grouped by labels that exist."""
    known = {
        "model",
        "outcome",
        "worker",
        "holder",
        "class",
        "budget",
        "result",
        "stage",
        "place",
        "subject",
        "reason",
        "job",
        "le",
        "status",
        "limit",
        "instance",
        "gpu",
    }
    for expression in expressions:
        grouped = re.findall(r"\bby\s*\(([^)]*)\)", expression)
        chosen = re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", expression)
        assert {label.strip() for group in grouped for label in group.split(",")} | set(chosen) <= known, expression


def test_alerts_name_outcomes_that_exist(expressions: list[str]) -> None:
    """The code of an error is its outcome."""
    named = {code for e in expressions for group in re.findall(r'outcome=~"([^"]*)"', e) for code in group.split("|")}
    assert named
    assert named <= {row.code for row in ROWS} | {"finished"}


def test_alerts_are_complete(rules: list[dict[str, Any]]) -> None:
    """Every alert has its own name, a severity, and a text for the person on call."""
    names = [rule["alert"] for rule in rules]
    assert len(names) == len(set(names)) >= 8
    for rule in rules:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}


def test_each_alert_leads_to_its_section_of_the_runbook(root: Path, rules: list[dict[str, Any]]) -> None:
    """A path of the guide and a heading in it, which the name of the alert is."""
    for rule in rules:
        path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        headings = re.findall(r"^### (\w+)\n\S", (root / path).read_text(), re.MULTILINE)
        assert rule["alert"] in headings
        assert anchor == rule["alert"].lower()


def test_each_job_that_is_scraped_wakes_somebody_when_it_is_gone(rules: list[dict[str, Any]]) -> None:
    jobs = [re.fullmatch(r'up\{job=~"([^"]*)"\} == 0', rule["expr"]) for rule in rules]
    assert sorted("|".join(found[1] for found in jobs if found).split("|")) == sorted([*SERVICES, *EXPORTERS])


def test_each_alert_is_seen_to_fire_and_to_stay_quiet(root: Path, rules: list[dict[str, Any]]) -> None:
    """The series of alerts_test.yml lead to both."""
    groups = yaml.safe_load((root / "tests/deploy/alerts_test.yml").read_text())["tests"]
    checks = [check for group in groups for check in group["alert_rule_test"]]
    fired = {check["alertname"] for check in checks if check.get("exp_alerts")}
    quiet = {check["alertname"] for check in checks if not check.get("exp_alerts")}
    assert fired == quiet == {rule["alert"] for rule in rules}


@pytest.mark.process
@pytest.mark.skipif(
    shutil.which(PROMTOOL) is None,
    reason=f"promtool is missing ({why_not(PROMETHEUS)}); to run it: make test where there is apt-get, "
    "or put promtool on PATH",
)
def test_alerts_fire_when_they_should() -> None:
    """Series that rise and fall, in alerts_test.yml."""
    command = [PROMTOOL, "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_reads_the_alerts_where_they_are_mounted(root: Path, compose: dict[str, Any]) -> None:
    prometheus = compose["services"]["prometheus"]
    config = next(a.partition("=")[2] for a in prometheus["command"] if a.startswith("--config.file="))
    targets = {volume.split(":")[1]: volume.split(":")[0] for volume in prometheus["volumes"]}
    assert config in targets
    for name in read_yaml(root, "prometheus.yml")["rule_files"]:
        source = targets[str(Path(config).parent / name)]
        assert (root / source).name == name


def test_each_service_is_scraped_once_and_where_it_shows_metrics(root: Path, compose: dict[str, Any]) -> None:
    """The gateway on its HTTP port, the others on their metrics port. Twice would count everything double."""
    scraped = read_yaml(root, "prometheus.yml")["scrape_configs"]
    jobs = {job["job_name"]: job.get("static_configs", []) for job in scraped}
    assert set(jobs) == {*SERVICES, *EXPORTERS}
    for service in SERVICES:
        environment = compose["services"][service]["environment"]
        prefix = f"HEADRACE_{service.upper()}_"
        http = environment.get(f"{prefix}HTTP_ADDRESS", "").rpartition(":")[2]
        port = http or environment[f"{prefix}METRICS_PORT"]
        assert [config["targets"] for config in jobs[service]] == [[f"{service}:{port}"]]
        assert not (http and f"{prefix}METRICS_PORT" in environment)


def test_metrics_ports_are_no_other_ports(compose: dict[str, Any]) -> None:
    """Within one container two listeners cannot share a port."""
    for service in SERVICES:
        ports = [
            value.rpartition(":")[2]
            for name, value in compose["services"][service]["environment"].items()
            if name.endswith(("_LISTEN_ADDRESS", "_HTTP_ADDRESS", "_METRICS_PORT"))
        ]
        assert len(ports) == len(set(ports)) == 2


def test_the_collectors_pipelines_are_made_of_what_is_defined(root: Path) -> None:
    config = read_yaml(root, "collector.yaml")
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= config[kind].keys()
    assert config["service"]["pipelines"]["traces"]["processors"][0] == "memory_limiter"


def test_spans_are_sent_on_to_jaeger(root: Path, compose: dict[str, Any]) -> None:
    exporter = read_yaml(root, "collector.yaml")["exporters"]["otlp/jaeger"]
    assert exporter["endpoint"] == "jaeger:4317"
    assert compose["services"]["jaeger"]["environment"]["JAEGER_LISTEN_HOST"] == "0.0.0.0"


def test_the_collector_is_started_with_its_file_and_shows_its_own_metrics(root: Path, compose: dict[str, Any]) -> None:
    service = compose["services"]["otel-collector"]
    assert service["command"] == [f"--config={service['volumes'][0].split(':')[1]}"]
    config = read_yaml(root, "collector.yaml")
    reader = config["service"]["telemetry"]["metrics"]["readers"][0]["pull"]["exporter"]["prometheus"]
    scraped = read_yaml(root, "prometheus.yml")["scrape_configs"]
    jobs = {job["job_name"]: job.get("static_configs", []) for job in scraped}
    assert jobs["otel-collector"] == [{"targets": [f"otel-collector:{reader['port']}"]}]
    limit = int(service["deploy"]["resources"]["limits"]["memory"].removesuffix("M"))
    assert config["processors"]["memory_limiter"]["limit_mib"] < limit


def test_grafana_finds_its_sources_by_service_name(root: Path, compose: dict[str, Any]) -> None:
    sources = read_yaml(root, "grafana/provisioning/datasources/datasources.yaml")["datasources"]
    assert {source["uid"] for source in sources} == {"prometheus", "jaeger"}
    for source in sources:
        host, _, port = source["url"].removeprefix("http://").partition(":")
        assert [entry.split(":")[2] for entry in compose["services"][host]["ports"]] == [port]


def test_grafana_finds_its_dashboards_where_they_are_mounted(root: Path, compose: dict[str, Any]) -> None:
    grafana = compose["services"]["grafana"]
    targets = {volume.split(":")[1]: volume.split(":")[0] for volume in grafana["volumes"]}
    provider = read_yaml(root, "grafana/provisioning/dashboards/dashboards.yaml")["providers"][0]
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert provider["options"]["path"] == str(home.parent)
    assert (root / targets[str(home.parent)] / home.name).is_file()
    assert (root / targets["/etc/grafana/provisioning"] / "datasources").is_dir()


def test_dashboards_use_sources_that_are_provisioned(root: Path, dashboards: list[dict[str, Any]]) -> None:
    sources = read_yaml(root, "grafana/provisioning/datasources/datasources.yaml")["datasources"]
    assert "prometheus" in [source["type"] for source in sources]
    for dashboard in dashboards:
        first, *others = dashboard["templating"]["list"]
        assert (first["name"], first["type"], first["query"]) == ("datasource", "datasource", "prometheus")
        targets = [target for panel in panels(dashboard) for target in panel["targets"]]
        for user in [*panels(dashboard), *targets, *others, *dashboard["annotations"]["list"]]:
            assert user["datasource"] == CHOSEN_SOURCE, dashboard["uid"]


def test_each_panel_is_described(dashboards: list[dict[str, Any]]) -> None:
    """In a sentence, and not in the words of its title alone."""
    for panel in panels(*dashboards):
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["description"].rstrip().endswith((".", "?", ")")), panel["title"]


def test_alerts_and_restarts_are_marked_on_every_dashboard(
    dashboards: list[dict[str, Any]], exported: set[str]
) -> None:
    for dashboard in dashboards:
        marks = {mark["name"]: mark["expr"] for mark in dashboard["annotations"]["list"] if mark["enable"]}
        assert marks.keys() == {"Alerts", "Restarts"}
        assert metrics_in(marks["Alerts"]) == {"ALERTS"}
        assert metrics_in(marks["Restarts"]) <= exported
        assert set(re.findall(r"\w+", marks["Restarts"].split('"')[1])) == set(SERVICES)


def test_a_chosen_gateway_or_worker_narrows_every_figure_of_its_own(dashboards: list[dict[str, Any]]) -> None:
    """A page with a variable leaves none of the figures out that it is about. Prices alone are the whole platform's."""
    workers = {name for _, name, *_ in PER_WORKER} | {name for name, *_ in SUMMED} | {"headrace_workers"}
    narrowed = 0
    for dashboard in dashboards:
        defined = {variable["name"] for variable in dashboard["templating"]["list"]}
        for expression in (target["expr"] for panel in panels(dashboard) for target in panel["targets"]):
            for name, chosen in re.findall(r"\b(headrace_\w+)(\{[^}]*\})?", expression):
                if "worker" in defined and name.removesuffix("_total") in workers | {"headrace_kv_blocks"}:
                    assert WORKER_FILTER in chosen, expression
                    narrowed += 1
                if "gateway" in defined and "headrace_cost" not in expression and name.startswith(OF_GATEWAYS):
                    assert GATEWAY_FILTER in chosen, expression
                    narrowed += 1
    assert narrowed > 50


def test_dashboards_have_addresses_of_their_own(dashboards: list[dict[str, Any]]) -> None:
    """The page for newcomers keeps the address that links know."""
    names = [dashboard["uid"] for dashboard in dashboards]
    assert "headrace" in names
    assert len(names) == len(set(names)) >= 8
    assert all(dashboard["tags"] == ["headrace"] and dashboard["links"] for dashboard in dashboards)


def test_dashboards_are_well_formed(dashboards: list[dict[str, Any]]) -> None:
    """Panels have titles and numbers of their own, and none lies on another."""
    for dashboard in dashboards:
        numbers = [panel["id"] for panel in dashboard["panels"]]
        assert len(numbers) == len(set(numbers))
        assert all(panel["title"] for panel in dashboard["panels"])
        cells: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
            assert not own & cells, f"{dashboard['uid']}: {panel['title']}"
            assert place["x"] + place["w"] <= 24
            cells |= own


def test_the_variables_of_dashboards_are_defined(dashboards: list[dict[str, Any]]) -> None:
    for dashboard in dashboards:
        used = {
            name
            for panel in panels(dashboard)
            for target in panel["targets"]
            for name in re.findall(r"\$(\w+)", target["expr"])
        }
        defined = dashboard["templating"]["list"]
        assert used - {"__rate_interval"} | {"datasource"} == {variable["name"] for variable in defined}, dashboard[
            "uid"
        ]
        for variable in defined[1:]:
            label = {"gateway": "instance"}.get(variable["name"], variable["name"])
            assert re.fullmatch(rf"label_values\(\w+(\{{.*\}})?, {label}\)", variable["definition"])
