"""The Dockerfile and what it puts into each image. No Docker is needed: its parts are run here."""

import ast
import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import HealthServicer
from grpc_health.v1.health_pb2 import HealthCheckResponse
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.own_certificate import make_certificate

from headrace.demo_model import CHECKPOINT
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role_identity import read_identity

SERVICES = ["gateway", "tokenizer", "scheduler", "cache", "worker"]
LOADED_LATER = {
    "worker": ["headrace.engine.engines.text_engine"],
    "cache": ["headrace.cache.shared_kv.valkey_blocks"],
}
Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def stages(root: Path) -> dict[str, list[Instruction]]:
    """The instructions of each stage, by its name; those before the first stage under the empty name."""
    text = re.sub(r"^\s*#.*\n", "", (root / "deploy/docker/Dockerfile").read_text(), flags=re.MULTILINE)
    found: dict[str, list[Instruction]] = {"": []}
    name = ""
    for line in text.replace("\\\n", " ").splitlines():
        keyword, _, rest = line.strip().partition(" ")
        if keyword == "FROM":
            name = rest.rpartition(" AS ")[2]
        if keyword:
            found.setdefault(name, []).append((keyword, " ".join(rest.split())))
    return found


def values(stage: list[Instruction], keyword: str) -> list[str]:
    return [rest for name, rest in stage if name == keyword]


def extras(root: Path) -> dict[str, Any]:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def closure(requirements: list[str]) -> set[str]:
    """Everything that is installed along with some requirements, as far as it is installed here."""
    names: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        names.add(name)
        waiting += _needs(name, requirement.extras)
    return names


def _needs(name: str, chosen: set[str]) -> Iterator[Requirement]:
    try:
        needed = [Requirement(text) for text in requires(name) or []]
    except PackageNotFoundError:
        return
    for requirement in needed:
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in chosen | {""}):
            yield requirement


def imported_distributions(root: Path, service: str) -> set[str]:
    """Distributions that the code of a service imports, here or in the libraries of ours that it loads."""
    owners = known_owners()
    # A namespace such as `google` belongs to several distributions; it says nothing about any of them.
    found = {names[0] for module in own_imports(root, service) if len(names := [*{*owners.get(module, [])}]) == 1}
    return {str(canonicalize_name(name)) for name in found} - {"headrace"}


@functools.cache
def known_owners() -> Mapping[str, list[str]]:
    """Distributions by the modules that they install. To find them takes seconds."""
    return packages_distributions()


def own_imports(root: Path, service: str) -> set[str]:
    """Top-level names in the import statements of every module of ours that a fresh process of the service loads."""
    modules = [f"headrace.{service}.app", *LOADED_LATER.get(service, [])]
    names = "(module.__file__ for name, module in sys.modules.items() if name.startswith('headrace.'))"
    code = f"import {', '.join(modules)}, sys; print(*{names})"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    files = [Path(name) for name in output.split() if name.startswith(str(root))]
    assert len(files) > 10
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    qualified = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in plain | qualified}


def test_it_is_built_in_stages(stages: dict[str, list[Instruction]]) -> None:
    """Build tools stay behind: the image is the last stage, and takes only the finished environment."""
    assert list(stages) == ["", "wheel", "environment", "service"]
    assert any("pip wheel" in run for run in values(stages["wheel"], "RUN"))
    assert "--from=environment /opt/headrace /opt/headrace" in values(stages["service"], "COPY")
    assert not any("pip" in run.split() for run in values(stages["service"], "RUN"))


def test_the_base_is_pinned_to_a_python_that_is_supported(stages: dict[str, list[Instruction]]) -> None:
    assert values(stages[""], "ARG") == ["PYTHON=3.11-slim-bookworm"]
    for name in ("wheel", "service"):
        assert values(stages[name], "FROM") == [f"python:${{PYTHON}} AS {name}"]
    assert values(stages["environment"], "FROM") == ["wheel AS environment"]


def test_the_service_is_chosen_by_argument(stages: dict[str, list[Instruction]]) -> None:
    """An argument lasts until the end of its stage, so each stage that uses it asks for it."""
    for name in ("environment", "service"):
        assert "SERVICE" in values(stages[name], "ARG")
    # The wheel is the same for all five: an argument would build it five times.
    assert values(stages["wheel"], "ARG") == []


def test_only_the_extra_of_the_service_is_installed(stages: dict[str, list[Instruction]]) -> None:
    """The extra is installed from files whose hashes were checked, without an index."""
    install = next(run for run in values(stages["environment"], "RUN") if "install" in run)
    assert 'wheel="$(ls /wheels/headrace-*.whl)"' in install
    assert '${install} --no-index "${wheel}[${SERVICE}]"' in install
    # Models that the kernels cannot run need torch, which is asked for, in the version that is tested.
    torch = '${install} --constraint constraints.txt "${wheel}[torch${GPU:+,gpu}]"'
    assert f'if [ "${{SERVICE}}${{TORCH}}${{GPU}}" != "${{SERVICE}}" ]; then {torch}; fi' in install


def test_packages_are_downloaded_by_their_hashes(stages: dict[str, list[Instruction]]) -> None:
    """By hash and as wheels alone: what is built from sources would bring tools whose hashes are not known."""
    (download,) = (run for run in values(stages["wheel"], "RUN") if "pip download" in run)
    for option in ("--require-hashes", "--requirement lock.txt", "--only-binary :all:", "--no-deps", "--dest /wheels"):
        assert option in download, option


def test_the_lock_names_the_versions_that_are_tested(root: Path) -> None:
    """Each with the hash of every file: pip takes the one that fits the image."""
    locked = pinned(root / "deploy/docker/lock.txt")
    tested = pinned(root / "constraints.txt")
    assert {name: tested[name] for name in locked.keys() & tested.keys()} == {
        name: version for name, version in locked.items() if name in tested
    }
    assert len(locked.keys() & tested.keys()) > 20
    entries = re.split(r"\n(?=\S)", (root / "deploy/docker/lock.txt").read_text())
    assert [entry for entry in entries if entry[0] != "#" and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("service", SERVICES)
def test_the_lock_has_all_that_a_service_needs(root: Path, service: str) -> None:
    known = extras(root)
    assert closure(known[""] + known[service]) - pinned(root / "deploy/docker/lock.txt").keys() == set()


def pinned(path: Path) -> dict[str, str]:
    """Versions by name, in a file of requirements."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", path.read_text(), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


def test_kernels_for_gpus_come_with_the_compiler_that_they_need(
    root: Path, stages: dict[str, list[Instruction]]
) -> None:
    """Triton compiles a launcher of each kernel, in C, in the running container."""
    install = next(run for run in values(stages["environment"], "RUN") if "install" in run)
    assert "[torch${GPU:+,gpu}]" in install
    assert any('if [ -n "${GPU}" ]' in run and " gcc libc6-dev" in run for run in values(stages["service"], "RUN"))
    for name in ("environment", "service"):
        assert 'GPU=""' in values(stages[name], "ARG")
    assert any(Requirement(text).name == "triton" for text in extras(root)["gpu"])


def test_it_runs_as_nobody_special(stages: dict[str, list[Instruction]]) -> None:
    """The user is a number, so that orchestrators can tell that it is not root."""
    keywords = [keyword for keyword, _ in stages["service"]]
    assert values(stages["service"], "USER") == ["10001:10001"]
    assert keywords.index("USER") < keywords.index("ENTRYPOINT")
    assert max(index for index, keyword in enumerate(keywords) if keyword == "RUN") < keywords.index("USER")


def test_what_is_copied_exists_and_reaches_the_build(root: Path, stages: dict[str, list[Instruction]]) -> None:
    """.dockerignore lets through what it names, and nothing else."""
    allowed = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for stage in stages.values():
        for copy in values(stage, "COPY"):
            if not copy.startswith("--from="):
                copied |= set(copy.split()[:-1])
    assert copied == allowed
    assert [path for path in copied if not (root / path).exists()] == []


@pytest.mark.process
@pytest.mark.parametrize("service", SERVICES)
def test_the_entrypoint_is_the_service(stages: dict[str, list[Instruction]], service: str) -> None:
    """Arguments of the container reach it as flags, and Python takes the place of the shell: it gets the signals."""
    entrypoint = json.loads(values(stages["service"], "ENTRYPOINT")[0])
    assert "exec python -m" in entrypoint[2]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"SERVICE": service, "PATH": path}
    done = subprocess.run([*entrypoint, "--help"], env=environment, capture_output=True, text=True, check=True)
    assert f"headrace.{service}" in done.stdout


def test_the_bundled_model_is_linked_where_the_compose_file_looks(
    stages: dict[str, list[Instruction]], compose: dict[str, Any]
) -> None:
    install = next(run for run in values(stages["environment"], "RUN") if "ln -s" in run)
    assert "from headrace.demo_model import CHECKPOINT" in install
    assert compose["services"]["worker"]["environment"]["HEADRACE_WORKER_FOLDER"] in install
    assert CHECKPOINT.name == "checkpoint"


def test_volumes_are_mounted_where_the_user_may_write(
    stages: dict[str, list[Instruction]], compose: dict[str, Any]
) -> None:
    """A new volume takes over the owner of the folder in the image."""
    folder = compose["services"]["cache"]["environment"]["HEADRACE_CACHE_FOLDER"]
    assert any(f"--owner=headrace --group=headrace {folder}" in run for run in values(stages["service"], "RUN"))


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_brings_torch(root: Path, service: str) -> None:
    """Neither by its extra nor by anything that this pulls in: torch has an extra of its own."""
    known = extras(root)
    assert not {"torch", "transformers"} & closure(known[""] + known[service])
    assert "torch" in closure(known["torch"])


@pytest.mark.process
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_imports_nothing_that_its_image_lacks(root: Path, service: str) -> None:
    """Imports of a service are in its extra or in what every service has."""
    known = extras(root)
    imported = imported_distributions(root, service)
    assert {"grpcio", "nats-py"} <= imported
    torch = known["torch"] if service == "worker" else []
    assert imported - closure(known[""] + known[service] + torch) == set()


@pytest.fixture
def health_server() -> Iterator[tuple[int, HealthServicer]]:
    servicer = HealthServicer()
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port, servicer
    server.stop(None).wait()


def ask_health(root: Path, port: int | str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SERVICE": "cache", "HEADRACE_CACHE_LISTEN_ADDRESS": f"0.0.0.0:{port}"} | settings
    command = [sys.executable, str(root / "deploy/docker/health.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_health_is_green_when_the_service_serves(root: Path, health_server: tuple[int, HealthServicer]) -> None:
    port, servicer = health_server
    servicer.set("", HealthCheckResponse.SERVING)
    assert ask_health(root, port).returncode == 0


@pytest.mark.process
def test_health_is_red_when_it_does_not(root: Path, health_server: tuple[int, HealthServicer]) -> None:
    """Draining, or never started: the reason is in the output, which `docker inspect` shows."""
    port, servicer = health_server
    servicer.set("", HealthCheckResponse.NOT_SERVING)
    draining = ask_health(root, port)
    assert (draining.returncode, draining.stderr.strip()) == (1, "NOT_SERVING")
    servicer.set("", HealthCheckResponse.SERVING)
    unknown = ask_health(root, "")
    assert unknown.returncode == 1
    assert "HEADRACE_CACHE_LISTEN_ADDRESS" in unknown.stderr


@pytest.mark.process
def test_health_is_red_when_nobody_listens(root: Path) -> None:
    dead = ask_health(root, 1)
    assert dead.returncode == 1
    assert "no answer on port 1" in dead.stderr


@pytest.mark.process
def test_health_shows_the_certificate_of_the_service(root: Path, tmp_path: Path) -> None:
    CertificateFolder(tmp_path).create()
    own = read_identity(tmp_path / "cache")
    pair = own.private_key, own.certificate
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(), server)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair], own.authority, True))
    server.start()
    try:
        assert ask_health(root, port, HEADRACE_CACHE_CERTIFICATES=str(own.folder)).returncode == 0
        assert "UNAVAILABLE" in ask_health(root, port).stderr
    finally:
        server.stop(None).wait()


@pytest.mark.process
def test_health_of_a_gateway_is_asked_as_by_clients(
    root: Path, tmp_path: Path, health_server: tuple[int, HealthServicer]
) -> None:
    """Its port has the certificate for clients, or none, whatever it shows the other services."""
    CertificateFolder(tmp_path / "roles").create()
    roles = {"HEADRACE_GATEWAY_CERTIFICATES": str(tmp_path / "roles" / "gateway"), "SERVICE": "gateway"}
    port, servicer = health_server
    servicer.set("", HealthCheckResponse.SERVING)
    plain = roles | {"HEADRACE_GATEWAY_LISTEN_ADDRESS": f"0.0.0.0:{port}"}
    assert ask_health(root, port, **plain).returncode == 0
    certificate, key = make_certificate(tmp_path)
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(), server)
    pair = key.read_bytes(), certificate.read_bytes()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    guarded = roles | {"HEADRACE_GATEWAY_LISTEN_ADDRESS": f"0.0.0.0:{port}"}
    try:
        assert ask_health(root, port, **guarded, HEADRACE_GATEWAY_TLS_CERTIFICATE=str(certificate)).returncode == 0
        assert "UNAVAILABLE" in ask_health(root, port, **guarded).stderr
    finally:
        server.stop(None).wait()


def test_the_health_check_of_the_image_asks_the_service(stages: dict[str, list[Instruction]]) -> None:
    check = values(stages["service"], "HEALTHCHECK")[0]
    assert json.loads(check.partition("CMD ")[2]) == ["python", "/opt/headrace/health.py"]
    assert "deploy/docker/health.py /opt/headrace/health.py" in values(stages["service"], "COPY")
