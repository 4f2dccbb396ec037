"""`headrace doctor`: checks whether this machine can run the platform, and how well."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from headrace.cli.compiler_remedy import compiler_remedy
from headrace.cli.engine_parts import missing_parts
from headrace.cli.output import console, print_json
from headrace.engine.kernels.choice.processor import TELLING, UNUSED, Processor
from headrace.engine.loading.required_torch import torch_command
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.memory.interleaving import interleave_over
from headrace.engine.memory.numa_nodes import usable_nodes
from headrace.errors import ConfigError, HeadraceError
from headrace.supervisor.nats_server import find_nats_server
from headrace.supervisor.ports import HOST
from headrace.supervisor.state import DEFAULT_FOLDER, read_platform

GIB = 1024**3
_MARKS = {"ok": ("✓", "green"), "note": ("·", "yellow"), "problem": ("✗", "red")}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Result of one check."""

    subject: str
    status: Literal["ok", "note", "problem"]
    text: str


def doctor(*, state_dir: Path = DEFAULT_FOLDER, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Checks this machine: CPU, memory, GPU, engine, NATS, ports. Exits with 1 if something prevents a start.

    Parameters
    ----------
    state_dir
        The state folder to check.
    json
        Print one JSON object.
    """
    checks: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
        _python, _cpu, _memory, _gpu, _engine, _nats, _ports, lambda: _state(state_dir)
    )  # fmt: skip
    findings = [finding for check in checks for finding in check()]
    if json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        console.print(_table(findings))
    if any(finding.status == "problem" for finding in findings):
        raise SystemExit(1)


def _table(findings: list[Diagnosis]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        mark, style = _MARKS[finding.status]
        # As it is: brackets in it are no markup.
        table.add_row(Text(mark, style=style), finding.subject, Text(finding.text, overflow="fold"))
    return table


def _python() -> Iterator[Diagnosis]:
    version = platform.python_version()
    yield Diagnosis("Python", "ok" if sys.version_info >= (3, 11) else "problem", f"{version} ({sys.executable})")
    yield Diagnosis("Headrace", "ok", importlib.metadata.version("headrace"))


def _cpu() -> Iterator[Diagnosis]:
    cores, processor = usable_core_count(), Processor.here()
    yield Diagnosis("CPU", "ok" if cores > 1 else "note", f"{processor.name}, {cores} cores for us")
    if processor.features:
        yield _features(processor.features)


def _features(features: frozenset[str]) -> Diagnosis:
    """Tells of the features that decide how fast a model runs."""
    used, spare = ([name for name in names if name in features] for names in (TELLING, UNUSED))
    told = f"kernels use {', '.join(used)}" if used else f"none that kernels use, which are {', '.join(TELLING)}"
    told += f"; no kernels here use its {', '.join(spare)}" if spare else ""
    return Diagnosis("CPU features", "ok" if used else "note", told)


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _memory() -> Iterator[Diagnosis]:
    fields = {line.split(":")[0]: line.split() for line in _read_lines("/proc/meminfo") if ":" in line}
    if "MemAvailable" in fields:
        free, total = (int(fields[name][1]) * 1024 / GIB for name in ("MemAvailable", "MemTotal"))
        status: Literal["ok", "note"] = "ok" if free > 2 else "note"
        yield Diagnosis("Memory", status, f"{free:.1f} of {total:.1f} GiB free")
    if nodes := usable_nodes():
        yield _numa(nodes)


def _numa(nodes: list[int]) -> Diagnosis:
    """Tells over how many nodes a worker spreads its memory, after trying it."""
    if len(nodes) == 1:
        return Diagnosis("NUMA", "ok", "1 node")
    try:
        is_interleaved = interleave_over(nodes)
    except OSError as error:
        remedy = "permit set_mempolicy, or start with numactl --interleave=all"
        return Diagnosis(
            "NUMA", "note", f"{len(nodes)} nodes; models on the CPU are not interleaved: {error}; {remedy}"
        )
    outcome = "are interleaved over them" if is_interleaved else "keep the memory policy that is set already"
    return Diagnosis("NUMA", "ok", f"{len(nodes)} nodes; models on the CPU {outcome}")


def _gpu() -> Iterator[Diagnosis]:
    binary = shutil.which("nvidia-smi")
    if binary is None:
        yield Diagnosis("GPU", "note", "none: models run on the CPU")
        return
    query = [binary, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        yield Diagnosis("GPU", "note", f"nvidia-smi does not work: {error}")
        return
    for line in answer.strip().splitlines():
        yield Diagnosis("GPU", "ok", line)


def _engine() -> Iterator[Diagnosis]:
    missing = missing_parts()
    if missing:
        command = f"{sys.executable} -m pip install 'headrace[worker]'"
        yield Diagnosis("Engine", "problem", f"{', '.join(missing)} not installed: {command}")
        return
    has_torch = importlib.util.find_spec("torch") is not None
    without = f"without torch, which GPUs, several processes for one model and quantizing need: {torch_command()}"
    yield Diagnosis("Engine", "ok", f"torch {importlib.metadata.version('torch')}" if has_torch else without)
    yield from _kernels(has_torch)


def _kernels(has_torch: bool) -> Iterator[Diagnosis]:
    """Reports the kernels that run models on the CPU, and why none are faster."""
    from headrace.engine.kernels.choice.candidates import candidates, choose_instructions
    from headrace.engine.kernels.choice.kernel_speed import MANY_ROWS, measure_kernels
    from headrace.engine.kernels.choice.passed_over import passed_over
    from headrace.engine.kernels.choice.processor import Processor

    try:
        chosen = choose_instructions()
    except ConfigError as error:
        yield Diagnosis("Kernels", "problem", error.message)
        return
    if chosen is None:
        outcome = "models run through torch, slower" if has_torch else "no model runs without torch"
        text = f"none: {candidates()[-1].reason}; {outcome}. {compiler_remedy()}"
        yield Diagnosis("Kernels", "note" if has_torch else "problem", text)
        return
    yield Diagnosis("Kernels", "ok", f"{chosen.name}, tried against numpy")
    for each in passed_over(chosen, Processor.here()):
        yield Diagnosis(f"  not {each.instructions.name}", "note", f"{each.reason}; {each.remedy}")
    for speed in measure_kernels(usable_core_count()):
        reading = f"{speed.gigabytes_per_second:.1f} GB/s of int4 weights for one row"
        computing = f"{speed.gigaoperations_per_second:.0f} GOP/s for {MANY_ROWS}"
        yield Diagnosis(f"  {speed.instructions.name}", "ok", f"{reading}, {computing}")


def _nats() -> Iterator[Diagnosis]:
    try:
        binary = find_nats_server()
        version = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    except HeadraceError as error:
        yield Diagnosis("NATS", "problem", error.message)
    except (OSError, subprocess.SubprocessError) as error:
        yield Diagnosis("NATS", "problem", f"nats-server does not run: {error}")
    else:
        yield Diagnosis("NATS", "ok", f"{version.strip()} ({binary})")


def _ports() -> Iterator[Diagnosis]:
    for port, flag in ((8000, "--http-port"), (9000, "--grpc-port")):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                yield Diagnosis(f"Port {port}", "note", f"in use; choose another with {flag}")
            else:
                yield Diagnosis(f"Port {port}", "ok", "free")


def _state(state_dir: Path) -> Iterator[Diagnosis]:
    folder = state_dir.expanduser().absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not os.access(existing, os.W_OK):
        yield Diagnosis("State folder", "problem", f"{folder} cannot be written; choose another with --state-dir")
        return
    free = shutil.disk_usage(existing).free / GIB
    yield Diagnosis("State folder", "ok" if free > 1 else "note", f"{folder}, {free:.1f} GiB free")
    try:
        platform_ = read_platform(folder)
        yield Diagnosis("Platform", "ok", f"runs at {platform_['http']} (pid {platform_['pid']})")
    except HeadraceError:
        yield Diagnosis("Platform", "ok", "none runs here; start one with: headrace up")
