"""Imports go one way: from services down to errors. Services do not know each other; torch stays in the engine."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of

LAYERS = [
    {"v1", "errors", "demo_model", "failpoints", "domain", "catalogue", "storage", "kv"},
    {"gguf_text", "folder_text", "settings", "access", "served"},
    {"engine"},
    {"telemetry", "evaluation", "planning"},
    {"quantization"},
    {"bus", "claims"},
    {"security"},
    {"rpc"},
    {"service_clients"},
    {"lifecycle", "load_generator", "client"},
    {"launch"},
    {"supervisor"},
    {"cli"},
]
RANK = {package: rank for rank, layer in enumerate(LAYERS) for package in layer}
SERVICES = {"gateway", "tokenizer", "scheduler", "cache", "worker"}
HEAVY = {"torch", "transformers", "safetensors"}
MAY_IMPORT_TORCH = tuple(
    f"libs/headrace/{place}"
    for place in (
        "engine/checkpoints/",
        "engine/torch/",
        "engine/gpu/",
        "engine/parallel/",
        "engine/triton/",
        "engine/vllm/",
        "quantization/",
        "evaluation/",
    )
)
"""The engine's other rooms start without torch (decision 0010)."""
MAY_IMPORT_GRPC = (
    "libs/headrace/rpc/",
    "libs/headrace/security/port_tls.py",
    "libs/headrace/security/role_rules.py",
    "libs/headrace/service_clients/",
    "libs/headrace/client/grpc_transport.py",
    "libs/headrace/errors/status.py",
    "libs/headrace/errors/table.py",
    "services/headrace/gateway/api/grpc/inference_servicer.py",
    "services/headrace/worker/hosting/servicer.py",
    "services/headrace/scheduler/scaling/servicer.py",
    "services/headrace/scheduler/picker/servicer.py",
    *(f"services/headrace/{service}/servicer.py" for service in ("tokenizer", "scheduler", "cache", "worker")),
)
"""Servicers, clients, and the two that turn calls and statuses into something else."""


def imports_of(path: Path) -> Iterator[str]:
    for node in nodes_of(path, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources(root: Path, part: str) -> list[Path]:
    found = sorted((root / part / "headrace").rglob("*.py"))
    assert found
    return [path for path in found if "v1" not in path.relative_to(root).parts]


def package_of(root: Path, path: Path) -> str:
    return path.relative_to(root).parts[2]


def test_every_library_package_has_a_layer(root: Path) -> None:
    packages = {path.name for path in (root / "libs" / "headrace").iterdir() if (path / "__init__.py").exists()}
    assert packages - set(RANK) == set()


def test_libraries_import_only_what_is_below_them(root: Path) -> None:
    wrong = []
    for path in sources(root, "libs"):
        package = package_of(root, path)
        for name in imports_of(path):
            parts = name.split(".")
            if parts[0] != "headrace" or len(parts) == 1 or parts[1] == package:
                continue
            if parts[1] in SERVICES or (parts[1] in RANK and RANK[parts[1]] >= RANK[package]):
                wrong.append(f"{path.relative_to(root)}: {name}")
    assert wrong == []


def test_a_service_never_imports_another(root: Path) -> None:
    wrong = []
    for path in sources(root, "services"):
        others = SERVICES - {package_of(root, path)}
        for name in imports_of(path):
            parts = name.split(".")
            if parts[0] == "headrace" and len(parts) > 1 and parts[1] in others | {"launch", "supervisor", "cli"}:
                wrong.append(f"{path.relative_to(root)}: {name}")
    assert wrong == []


def test_only_some_rooms_import_torch(root: Path) -> None:
    wrong = []
    for path in [*sources(root, "libs"), *sources(root, "services")]:
        relative = path.relative_to(root).as_posix()
        if relative.startswith(MAY_IMPORT_TORCH):
            continue
        wrong += [f"{relative}: {name}" for name in imports_of(path) if name.split(".")[0] in HEAVY]
    assert wrong == []


@pytest.mark.parametrize("room", ["contract", "pace", "batching"])
def test_the_rooms_that_only_plan_import_no_library_of_arrays(root: Path, room: str) -> None:
    paths = sorted((root / "libs" / "headrace" / "engine" / room).glob("*.py"))
    assert len(paths) > 1
    found = {
        path.name: [name for name in imports_of(path) if name.split(".")[0] in HEAVY | {"numpy"}] for path in paths
    }
    assert not any(found.values()), found


def test_only_the_worker_and_the_scheduler_know_the_engine(root: Path) -> None:
    """The scheduler knows how KV blocks are named. Its simulation plays workers, with the engine's own batcher."""
    for path in sources(root, "services"):
        if package_of(root, path) in {"gateway", "tokenizer", "cache"}:
            assert not any(name.startswith("headrace.engine") for name in imports_of(path)), path
        if package_of(root, path) == "scheduler" and path.parent.name != "simulation":
            known = {name for name in imports_of(path) if name.startswith("headrace.engine")}
            assert known <= {"headrace.kv.block_hash", "headrace.kv.block_hash.hash_blocks"}


def test_the_simulation_knows_of_the_engine_what_plans(root: Path) -> None:
    paths = sorted((root / "services" / "headrace" / "scheduler" / "simulation").glob("*.py"))
    rooms = {tuple(name.split(".")[2:4]) for path in paths for name in imports_of(path) if ".engine." in name}
    assert {room for room, *_ in rooms} == {"batching", "contract", "engines", "pace"}
    assert {module for room, module in rooms if room == "engines"} == {"sim"}


def test_a_plan_looks_at_nothing_outside(root: Path) -> None:
    """No clock, no file, no socket and no process: only values, and how settings are written (decision 0063)."""
    paths = sorted((root / "libs" / "headrace" / "launch").glob("*.py"))
    assert len(paths) > 5
    found = {name for path in paths for name in imports_of(path) if not name.startswith("headrace.launch")}
    known = {"collections.abc", "dataclasses", "pathlib", "typing", "headrace.errors", "headrace.settings.flags"}
    assert {name for name in found if name not in known and name.rpartition(".")[0] not in known} == set()


def grpc_importers(paths: list[Path], root: Path) -> list[str]:
    """Lists files that import gRPC though they are no servicer, client or part of rpc."""
    return [
        relative
        for path in paths
        if not (relative := path.relative_to(root).as_posix()).startswith(MAY_IMPORT_GRPC)
        and any(name.split(".")[0] in {"grpc", "grpc_health", "grpc_reflection"} for name in imports_of(path))
    ]


def test_grpc_stays_at_the_edge(root: Path) -> None:
    assert grpc_importers([*sources(root, "libs"), *sources(root, "services")], root) == []


def test_an_import_of_grpc_elsewhere_is_found(tmp_path: Path) -> None:
    path = tmp_path / "libs" / "headrace" / "lifecycle" / "service.py"
    path.parent.mkdir(parents=True)
    path.write_text("import grpc\n")
    assert grpc_importers([path], tmp_path) == ["libs/headrace/lifecycle/service.py"]
