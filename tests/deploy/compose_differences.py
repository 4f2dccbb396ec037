"""Differences between a plan and a compose file, each as a sentence that names the container and both values."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.launch.process_spec import ProcessSpec, variable_of

BESIDE = {"credential", "nats-exporter", "otel-collector", "jaeger", "prometheus", "grafana"}
"""Containers that are no processes of the platform: what makes its secret, and what watches it."""
CREDENTIAL_VOLUME = "credential"
IN_THE_IMAGE = Path("/opt/headrace")
Container = dict[str, Any]


def differences(processes: Sequence[ProcessSpec], compose: dict[str, Any]) -> list[str]:
    """Lists all differences; empty where the file starts what is planned."""
    names = {process.name: container_of(process) for process in processes}
    services = compose["services"]
    found = [f"{name}: no process of the plan" for name in services if name not in BESIDE | set(names.values())]
    for process in processes:
        if (container := services.get(names[process.name])) is None:
            found.append(f"{names[process.name]}: planned, but no container")
            continue
        needed = {names[other] for other in process.needs}
        found += [
            f"{names[process.name]}: {difference}"
            for part in (
                _program(process, container),
                _settings(process, container),
                _ports(process, container),
                _dependencies(needed, container),
                _health(process, container),
                _end(process, container),
                _paths(process, container),
            )
            for difference in part
        ]
    return found


def container_of(process: ProcessSpec) -> str:
    """Name of a process's container: that of its role, followed by its number where there are several."""
    return process.name.removesuffix("-0")


def _program(process: ProcessSpec, container: Container) -> Iterator[str]:
    if process.role == "nats":
        if container.get("command") != list(process.server_arguments):
            yield f"is planned with {list(process.server_arguments)}, and started with {container.get('command')}"
        if not container["image"].startswith("nats:"):
            yield f"is planned as a NATS server, and runs {container['image']}"
        return
    # The image runs `python -m headrace.SERVICE`.
    module = f"headrace.{container.get('build', {}).get('args', {}).get('SERVICE')}"
    if module != process.module:
        yield f"is planned to run {process.module}, and runs {module}"
    if command := container.get("command"):
        yield f"has arguments, which are not planned: {command}"
    if (count := container.get("deploy", {}).get("replicas", 1)) != 1:
        yield f"is planned once, and started {count} times"


def _settings(process: ProcessSpec, container: Container) -> Iterator[str]:
    planned, given = process.variables, container.get("environment", {})
    # Defaults of a service that has no brothers: its name and its number.
    implied = {variable_of(process.role, "service_id"), variable_of(process.role, "instance")}
    for name in sorted(planned.keys() | given.keys()):
        if name not in given:
            if name not in implied or planned[name] not in (process.name, "0"):
                yield f"{name} is planned to be {planned[name]}, and not given"
        elif name not in planned:
            yield f"{name} is {given[name]}, which is not planned"
        elif planned[name] != str(given[name]):
            yield f"{name} is planned to be {planned[name]}, and is {given[name]}"


def _ports(process: ProcessSpec, container: Container) -> Iterator[str]:
    planned = {port.number for port in process.ports if port.is_public}
    published = {int(port.rpartition(":")[2]) for port in container.get("ports", [])}
    for port in sorted(planned - published):
        yield f"port {port} is planned for clients, and not published"
    for port in sorted(published - planned):
        yield f"port {port} is published, which is not planned"


def _dependencies(needed: set[str], container: Container) -> Iterator[str]:
    planned = dict.fromkeys(needed, "service_healthy")
    if any(volume.startswith(f"{CREDENTIAL_VOLUME}:") for volume in container.get("volumes", [])):
        planned["credential"] = "service_completed_successfully"
    waited = {name: rule["condition"] for name, rule in container.get("depends_on", {}).items()}
    for name in sorted(planned.keys() | waited.keys()):
        if planned.get(name) != waited.get(name):
            yield f"is planned to wait for {name} ({planned.get(name)}), and waits ({waited.get(name)})"


def _health(process: ProcessSpec, container: Container) -> Iterator[str]:
    """The image asks a service by gRPC; a gateway is asked whether the platform answers, and NATS for its health."""
    test = " ".join(container.get("healthcheck", {}).get("test", []))
    port = next((port.number for port in process.ports if port.purpose == "monitoring"), 0)
    check = process.platform_health
    if process.role == "nats":
        wanted = f"http://127.0.0.1:{port}/healthz"
    else:
        wanted = f"http://127.0.0.1:{check.address.rpartition(':')[2]}{check.path}" if check else ""
    if (wanted not in test) if wanted else bool(test):
        yield f"is planned to be asked at {wanted or 'its gRPC port'}, and is by {test or 'the check of its image'}"


def _end(process: ProcessSpec, container: Container) -> Iterator[str]:
    grace = container.get("stop_grace_period", "10s")
    if float(grace.removesuffix("s")) < process.stop_seconds:
        yield f"is planned to have {process.stop_seconds:g} s to end, and is killed after {grace}"


def _paths(process: ProcessSpec, container: Container) -> Iterator[str]:
    """Files that are given to a process are in its image, or on a volume."""
    mounted = [Path(volume.split(":")[1]) for volume in container.get("volumes", [])]
    given = [value for value in process.settings.values() if isinstance(value, Path)]
    given += [value for value in process.defaults.values() if isinstance(value, Path)]
    given += [Path(argument) for argument in process.server_arguments if argument.startswith("/")]
    for path in given:
        if not any(path.is_relative_to(folder) for folder in (*mounted, IN_THE_IMAGE)):
            yield f"is planned to use {path}, which is on no volume"
