"""Each option changes which processes a plan has, or what they are given, and nothing else."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.harness.planned_platform import CORES, STATE, planned

from headrace.cache.config import CacheSettings
from headrace.errors import ConfigError
from headrace.gateway.config import GatewaySettings
from headrace.launch.nats_spec import NatsSpec
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.process_spec import HealthCheck, PlannedPort, ProcessSpec
from headrace.launch.site import ProcessSite
from headrace.scheduler.config import SchedulerSettings
from headrace.settings import Settings, load
from headrace.tokenizer.config import TokenizerSettings
from headrace.worker.config import WorkerSettings

ONE = [ModelSource("a", Path("/x"))]
TWO = [*ONE, ModelSource("b", Path("/y"))]
SCHEMAS: dict[str, type[Settings]] = {
    "gateway": GatewaySettings,
    "tokenizer": TokenizerSettings,
    "scheduler": SchedulerSettings,
    "cache": CacheSettings,
    "worker": WorkerSettings,
}
USUAL = ["nats", "tokenizer", "tokenizer-1", "scheduler", "cache", "worker-0", "gateway"]


def given_by(process: ProcessSpec) -> dict[str, Any]:
    return {**process.defaults, **process.settings}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({}, []),
        ({"gateways": 2}, ["gateway-1"]),
        ({"schedulers": 3}, ["scheduler-1", "scheduler-2"]),
        ({"caches": 2}, ["cache-1"]),
        ({"tokenizers": 3}, ["tokenizer-2"]),
        ({"replicas": 3}, ["worker-1", "worker-2"]),
        ({"prefill_workers": 1}, ["worker-1"]),
        ({"models": TWO}, ["worker-1"]),
        ({"models": TWO, "replicas": 2, "prefill_workers": 1}, [f"worker-{number}" for number in range(1, 6)]),
        ({"models": TWO, "shared_worker": True}, []),
        ({"models": TWO, "shared_worker": True, "replicas": 2}, ["worker-1"]),
    ],
)
def test_which_processes_there_are(options: dict[str, Any], more: list[str]) -> None:
    processes = planned(PlatformSpec(**({"models": ONE} | options)))
    assert sorted(processes) == sorted([*USUAL, *more])
    assert all(process.module == f"headrace.{process.role}" for process in processes.values() if process.role != "nats")


def test_one_tokenizer_is_enough_where_it_is_asked_for() -> None:
    assert "tokenizer-1" not in planned(PlatformSpec(ONE, tokenizers=1))


def test_a_running_nats_is_used_and_none_is_planned() -> None:
    processes = planned(PlatformSpec(ONE), nats=None, nats_url="nats://t@elsewhere:1")
    assert "nats" not in processes
    for process in processes.values():
        assert process.environment[f"HEADRACE_{process.role.upper()}_NATS_URL"] == "nats://t@elsewhere:1"
        assert "nats" not in process.needs
        assert not any("elsewhere" in argument for argument in process.arguments)


def test_nats_is_told_its_files_and_its_token_in_the_environment() -> None:
    nats = NatsSpec(STATE / "c", STATE / "n", "127.0.0.1", 7, STATE / "p", token="secret")
    process = planned(PlatformSpec(ONE), nats=nats)["nats"]
    assert " ".join(process.arguments) == (
        "--config /state/c --addr 127.0.0.1 --port 7 --jetstream --store_dir /state/n --ports_file_dir /state/p"
    )
    assert process.environment == {"HEADRACE_NATS_TOKEN": "secret"}
    assert process.health == HealthCheck("nats", "127.0.0.1:7")
    assert "secret" not in repr(process)


@pytest.mark.parametrize("options", [{}, {"replicas": 2, "gateways": 2, "caches": 2}])
def test_every_service_reads_what_it_is_given(options: dict[str, Any]) -> None:
    """Both ways in which launchers hand settings over: as flags, and in the environment."""
    for process in planned(PlatformSpec(TWO, **options), files_folder=STATE, credential="c" * 16).values():
        if process.role != "nats":
            by_flags = load(SCHEMAS[process.role], process.role, process.arguments, process.environment)
            assert by_flags == load(SCHEMAS[process.role], process.role, [], process.variables)


def test_services_call_each_other_where_they_listen() -> None:
    processes = planned(PlatformSpec(ONE, caches=2, schedulers=2))
    gateway, scheduler = processes["gateway"].settings, processes["scheduler"].settings
    assert gateway["tokenizer_addresses"] == "tokenizer:1,tokenizer-1:1"
    assert gateway["scheduler_addresses"] == "scheduler:1,scheduler-1:1"
    assert gateway["cache_addresses"] == scheduler["cache_addresses"] == "cache:1,cache-1:1"


def test_workers_share_kv_blocks_through_all_caches_where_there_is_room() -> None:
    processes = planned(PlatformSpec(ONE, caches=2, kv_store_bytes=7))
    assert [processes[name].settings["kv_store_bytes"] for name in ("cache", "cache-1")] == [7, 7]
    assert processes["worker-0"].settings["kv_store_addresses"] == "cache:1,cache-1:1"
    without = planned(PlatformSpec(ONE))
    assert "kv_store_bytes" not in without["cache"].settings
    assert "kv_store_addresses" not in without["worker-0"].settings


def test_services_call_each_other_at_the_addresses_that_are_advertised() -> None:
    names = [name for name in USUAL if name != "nats"]
    sites = {name: ProcessSite("0.0.0.0:1", f"{name}.there:1", metrics_port=9) for name in names}
    processes = planned(PlatformSpec(ONE), processes=sites)
    assert processes["gateway"].settings["scheduler_addresses"] == "scheduler.there:1"
    assert processes["cache"].settings["advertise_address"] == "cache.there:1"
    assert processes["cache"].settings["metrics_port"] == 9
    assert processes["cache"].ports == (PlannedPort("grpc", 1), PlannedPort("metrics", 9))


def test_gateways_share_the_public_ports_and_are_probed_at_their_own() -> None:
    names = [name for name in (*USUAL, "gateway-1") if name != "nats"]
    sites = {name: ProcessSite(f"{name}:1") for name in names}
    sites |= {name: ProcessSite("all:9000", probe=f"{name}:2") for name in ("gateway", "gateway-1")}
    processes = planned(PlatformSpec(ONE, gateways=2), processes=sites, http_socket=5)
    for name in ("gateway", "gateway-1"):
        gateway = processes[name]
        assert gateway.settings["listen_address"] == "all:9000"
        assert gateway.settings["probe_address"] == gateway.health.address == f"{name}:2"
        assert gateway.settings["http_socket"] == 5
        assert gateway.descriptors == (5,)
        assert gateway.platform_health == HealthCheck("http", "here:8000", "/ready")
        assert {port.number for port in gateway.ports if port.is_public} == {8000, 9000}
    assert [processes[name].settings["instance"] for name in ("gateway", "gateway-1")] == [0, 1]


def test_only_gateways_have_public_ports() -> None:
    processes = planned(PlatformSpec(ONE))
    public = {process.role for process in processes.values() if any(port.is_public for port in process.ports)}
    assert public == {"gateway"}


def test_gateways_need_all_and_all_need_nats() -> None:
    processes = planned(PlatformSpec(ONE, gateways=2))
    others = {"nats", "tokenizer", "tokenizer-1", "scheduler", "cache", "worker-0"}
    assert set(processes["gateway"].needs) == set(processes["gateway-1"].needs) == others
    assert {processes[name].needs for name in others - {"nats"}} == {("nats",)}
    assert processes["nats"].needs == ()


@pytest.mark.parametrize(
    ("option", "value", "role", "setting"),
    [
        ("strict", False, "gateway", "strict"),
        ("keys_file", Path("/keys"), "gateway", "keys_file"),
        ("model_order", ("b", "a"), "gateway", "model_order"),
        ("engine", "sim", "worker", "engine"),
    ],
)
def test_an_option_reaches_its_role_alone(option: str, value: Any, role: str, setting: str) -> None:
    given = planned(PlatformSpec(ONE, **{option: value})).values()
    expected = ",".join(value) if isinstance(value, tuple) else value
    assert {process.role for process in given if given_by(process).get(setting) == expected} == {role}
    assert not any(setting in given_by(process) for process in planned(PlatformSpec(ONE)).values())


def test_options_of_every_service_reach_every_service() -> None:
    processes = planned(PlatformSpec(ONE, service_options={"log_level": "debug"}, config_file=Path("/c.toml")))
    for process in processes.values():
        if process.role != "nats":
            assert process.settings["log_level"] == "debug"
            assert process.arguments[process.arguments.index("--config") + 1] == "/c.toml"
            assert process.variables["HEADRACE_CONFIG"] == "/c.toml"


def test_the_cores_are_shared_unless_a_number_is_given() -> None:
    """torch's pool is made before a worker reads its settings."""
    alone = planned(PlatformSpec(ONE))["worker-0"]
    assert (alone.defaults, alone.environment.get("OMP_NUM_THREADS")) == ({"thread_count": 0}, None)
    shared = planned(PlatformSpec(ONE, replicas=4))["worker-3"]
    assert (shared.defaults, shared.environment["OMP_NUM_THREADS"]) == ({"thread_count": CORES // 4}, str(CORES // 4))
    many = planned(PlatformSpec(ONE, replicas=CORES + 1))["worker-0"]
    assert many.defaults == {"thread_count": 1}
    given = planned(PlatformSpec(ONE, replicas=4, model_options={"thread_count": 3}))["worker-0"]
    assert (given.settings["thread_count"], given.environment["OMP_NUM_THREADS"]) == (3, "3")


def test_secrets_are_in_no_arguments() -> None:
    for process in planned(PlatformSpec(ONE), credential="very-secret", nats_url="nats://very-secret@n:1").values():
        assert not any("very-secret" in argument for argument in process.arguments)
        assert "very-secret" not in repr(process)
        assert process.role == "nats" or process.environment[f"HEADRACE_{process.role.upper()}_CREDENTIAL"]


def test_a_file_can_stand_for_the_secret() -> None:
    for process in planned(PlatformSpec(ONE), credential_file=Path("/secret")).values():
        assert process.role == "nats" or process.settings["credential_file"] == Path("/secret")
        assert f"HEADRACE_{process.role.upper()}_CREDENTIAL" not in process.environment


def test_each_role_is_given_its_own_certificate() -> None:
    folders = {role: Path("/certificates") / role for role in SCHEMAS}
    for process in planned(PlatformSpec(ONE), certificates=folders).values():
        assert process.settings.get("certificates") == folders.get(process.role)


def test_folders_are_given_to_those_that_write_there() -> None:
    names = [name for name in USUAL if name != "nats"]
    sites = {name: ProcessSite(f"{name}:1", folder=STATE / name, workers_file=STATE / "w") for name in names}
    processes = planned(PlatformSpec(ONE), processes=sites, usage_folder=STATE / "usage", files_folder=STATE / "files")
    assert processes["gateway"].defaults == {"usage_folder": STATE / "usage", "files_folder": STATE / "files"}
    assert [name for name in processes if "workers_file" in processes[name].settings] == ["scheduler", "gateway"]
    assert processes["cache"].settings["folder"] == STATE / "cache"


def test_a_process_without_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="the plan starts tokenizer, which has no address: add it"):
        planned(PlatformSpec(ONE), processes={})


def test_the_same_description_makes_the_same_plan_without_a_look_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a plan looks outside")

    for owner, name in ((time, "time"), (time, "monotonic"), (socket, "socket"), (subprocess, "Popen")):
        monkeypatch.setattr(owner, name, refuse)
    for name in ("stat", "open", "exists", "resolve", "expanduser"):
        monkeypatch.setattr(Path, name, refuse)
    first, second = planned(PlatformSpec(TWO, replicas=2)), planned(PlatformSpec(TWO, replicas=2))
    monkeypatch.undo()
    assert first == second
