"""The compose file starts what is planned: the processes, what each is given, and which waits for which."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.compose_differences import BESIDE, differences
from tests.deploy.compose_plan import CERTIFIED, SITE, SPEC

from headrace.launch.nats_spec import NatsSpec
from headrace.launch.plan import plan
from headrace.launch.platform_spec import PlatformSpec
from headrace.launch.process_spec import ProcessSpec
from headrace.launch.site import ProcessSite, Site

Services = dict[str, dict[str, Any]]


def with_certificates(compose: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Merges a compose file into another as Docker does: environments and volumes are joined, all else is replaced."""
    merged = copy.deepcopy(compose)
    for name, changed in overlay["services"].items():
        service = merged["services"][name]
        environment = service.get("environment", {}) | changed.get("environment", {})
        volumes = [*service.get("volumes", []), *changed.get("volumes", [])]
        service |= changed | {"volumes": volumes} | ({"environment": environment} if environment else {})
    return merged


def test_the_compose_file_starts_what_is_planned(compose: dict[str, Any]) -> None:
    assert differences(plan(SPEC, SITE), compose) == []


def test_with_certificates_too(compose: dict[str, Any], read_compose: Callable[[str], dict[str, Any]]) -> None:
    merged = with_certificates(compose, read_compose("deploy/docker/certificates.yml"))
    assert differences(plan(SPEC, CERTIFIED), merged) == []
    plain = differences(plan(SPEC, SITE), merged)
    assert "gateway: HEADRACE_GATEWAY_CERTIFICATES is /certificates, which is not planned" in plain
    assert any(line.startswith("nats: is planned with ['--config', '/credential/nats.conf'") for line in plain)


def test_what_is_beside_the_plan_is_there(compose: dict[str, Any]) -> None:
    assert compose["services"].keys() >= BESIDE


def set_variable(service: str, name: str, value: str) -> Callable[[Services], None]:
    return lambda services: services[service]["environment"].update({name: value})


CHANGED_FILES: dict[str, tuple[Callable[[Services], Any], list[str]]] = {
    "a container is gone": (lambda s: s.pop("cache"), ["cache: planned, but no container"]),
    "a container more": (lambda s: s.update({"cache-1": s["cache"]}), ["cache-1: no process of the plan"]),
    "another module": (
        lambda s: s["cache"]["build"]["args"].update(SERVICE="worker"),
        ["cache: is planned to run headrace.cache, and runs headrace.worker"],
    ),
    "several of one": (
        lambda s: s["worker"]["deploy"].update(replicas=2),
        ["worker: is planned once, and started 2 times"],
    ),
    "a flag": (lambda s: s["cache"].update(command=["--x"]), ["cache: has arguments, which are not planned: ['--x']"]),
    "a setting": (
        set_variable("scheduler", "HEADRACE_SCHEDULER_CACHE_ADDRESSES", "cache:1"),
        ["scheduler: HEADRACE_SCHEDULER_CACHE_ADDRESSES is planned to be cache:9103, and is cache:1"],
    ),
    "a setting is gone": (
        lambda s: s["worker"]["environment"].pop("HEADRACE_WORKER_PACKED_FOLDER"),
        ["worker: HEADRACE_WORKER_PACKED_FOLDER is planned to be /var/lib/headrace/packed, and not given"],
    ),
    "a setting more": (
        set_variable("cache", "HEADRACE_CACHE_MAX_BYTES", "5"),
        ["cache: HEADRACE_CACHE_MAX_BYTES is 5, which is not planned"],
    ),
    "another name": (
        set_variable("worker", "HEADRACE_WORKER_SERVICE_ID", "worker-9"),
        ["worker: HEADRACE_WORKER_SERVICE_ID is planned to be worker-0, and is worker-9"],
    ),
    "a port": (
        lambda s: s["gateway"].update(ports=["127.0.0.1:8000:8001", "127.0.0.1:9000:9000"]),
        [
            "gateway: port 8000 is planned for clients, and not published",
            "gateway: port 8001 is published, which is not planned",
        ],
    ),
    "an inner port is published": (
        lambda s: s["worker"].update(ports=["127.0.0.1:9104:9104"]),
        ["worker: port 9104 is published, which is not planned"],
    ),
    "no wait": (
        lambda s: s["gateway"]["depends_on"].pop("worker"),
        ["gateway: is planned to wait for worker (service_healthy), and waits (None)"],
    ),
    "a wait that is too short": (
        lambda s: s["gateway"]["depends_on"]["nats"].update(condition="service_started"),
        ["gateway: is planned to wait for nats (service_healthy), and waits (service_started)"],
    ),
    "the secret may not be there": (
        lambda s: s["nats"].pop("depends_on"),
        ["nats: is planned to wait for credential (service_completed_successfully), and waits (None)"],
    ),
    "another health check": (
        lambda s: s["gateway"].pop("healthcheck"),
        [
            "gateway: is planned to be asked at http://127.0.0.1:8000/ready, and is by the check of its image",
        ],
    ),
    "too little time to end": (
        lambda s: s["worker"].update(stop_grace_period="3s"),
        ["worker: is planned to have 5 s to end, and is killed after 3s"],
    ),
    "no volume": (
        lambda s: s["cache"].update(volumes=["credential:/credential:ro"]),
        ["cache: is planned to use /var/lib/headrace, which is on no volume"],
    ),
    "another server": (
        lambda s: s["nats"].update(image="redis:7.0.0"),
        ["nats: is planned as a NATS server, and runs redis:7.0.0"],
    ),
}


@pytest.mark.parametrize("change", CHANGED_FILES)
def test_a_change_of_the_file_is_named(compose: dict[str, Any], change: str) -> None:
    changed = copy.deepcopy(compose)
    make, expected = CHANGED_FILES[change]
    make(changed["services"])
    assert differences(plan(SPEC, SITE), changed) == expected


def changed_site(name: str, **changed: Any) -> Site:
    return replace(SITE, processes={**SITE.processes, name: replace(SITE.of(name), **changed)})


CHANGED_PLANS: dict[str, tuple[PlatformSpec, Site, list[str]]] = {
    "a process more": (
        replace(SPEC, tokenizers=2),
        replace(SITE, processes={**SITE.processes, "tokenizer-1": ProcessSite("0.0.0.0:9105", "tokenizer-1:9105")}),
        [
            "tokenizer-1: planned, but no container",
            (
                "gateway: HEADRACE_GATEWAY_TOKENIZER_ADDRESSES is planned to be tokenizer:9101,tokenizer-1:9105, "
                "and is tokenizer:9101"
            ),
            "gateway: is planned to wait for tokenizer-1 (service_healthy), and waits (None)",
        ],
    ),
    "an option": (
        replace(SPEC, strict=True),
        SITE,
        ["gateway: HEADRACE_GATEWAY_STRICT is planned to be true, and not given"],
    ),
    "a port of metrics": (
        SPEC,
        changed_site("cache", metrics_port=9999),
        ["cache: HEADRACE_CACHE_METRICS_PORT is planned to be 9999, and is 9203"],
    ),
    "a port of clients": (
        SPEC,
        replace(SITE, http_address="0.0.0.0:8080"),
        [
            "gateway: HEADRACE_GATEWAY_HTTP_ADDRESS is planned to be 0.0.0.0:8080, and is 0.0.0.0:8000",
            "gateway: port 8080 is planned for clients, and not published",
            "gateway: port 8000 is published, which is not planned",
            (
                "gateway: is planned to be asked at http://127.0.0.1:8080/ready, and is by CMD python -c import "
                "urllib.request as http; http.urlopen('http://127.0.0.1:8000/ready', timeout=2)"
            ),
        ],
    ),
}


@pytest.mark.parametrize("change", CHANGED_PLANS)
def test_a_change_of_the_plan_is_named(compose: dict[str, Any], change: str) -> None:
    spec, site, expected = CHANGED_PLANS[change]
    assert differences(plan(spec, site), compose) == expected


def test_another_secret_of_nats_is_named(compose: dict[str, Any]) -> None:
    site = replace(SITE, nats=NatsSpec(Path("/etc/nats.conf"), Path("/data"), monitoring_port=8222))
    command, folder = differences(plan(SPEC, site), compose)
    assert command.startswith("nats: is planned with ['--config', '/etc/nats.conf'")
    assert folder == "nats: is planned to use /etc/nats.conf, which is on no volume"


def test_a_platform_without_its_own_nats_has_no_container_of_it(compose: dict[str, Any]) -> None:
    found = differences(plan(SPEC, replace(SITE, nats=None)), compose)
    assert found[0] == "nats: no process of the plan"
    assert "cache: is planned to wait for nats (None), and waits (service_healthy)" in found


def test_another_module_in_the_plan_is_named(compose: dict[str, Any]) -> None:
    def changed(process: ProcessSpec) -> ProcessSpec:
        return replace(process, module="headrace.other") if process.name == "cache" else process

    found = differences([*map(changed, plan(SPEC, SITE))], compose)
    assert found == ["cache: is planned to run headrace.other, and runs headrace.cache"]
