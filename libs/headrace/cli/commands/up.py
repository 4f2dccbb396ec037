"""`headrace up`: runs the whole platform on this machine."""

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.compiler_remedy import missing_kernels
from headrace.cli.gateway_setting import gateway_path
from headrace.cli.key_choice import KeyChoice, Reach, choose_keys
from headrace.cli.model_flags import NO_FLAGS, ModelFlags, given
from headrace.cli.output import console, print_json, warn
from headrace.cli.terminal.first_steps import examples
from headrace.errors import ConfigError
from headrace.supervisor.model_source import resolve
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.platform import Platform
from headrace.supervisor.state import DEFAULT_FOLDER, StateFolder

_STYLES = {"ready": "green", "starting": "yellow", "restarting": "red", "stopped": "dim"}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ModelParts:
    """Drafts and adapters: parts that belong to one model."""

    draft: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A small model of the same family that drafts for a model: NAME=SOURCE, or SOURCE if there is one model. The text
    stays the same, bit for bit."""
    lora: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A LoRA adapter as PEFT saves it, served as a model of its own: NAME=FOLDER, or MODEL:NAME=FOLDER if there are
    several models."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class SharedWorker:
    """One worker for several models, which take turns: some are awake, the others sleep until they are asked."""

    one_worker: Annotated[bool, Parameter(negative="")] = False
    """Serve all models from one worker, with memory for some of them."""
    pin: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A model that never sleeps; may be repeated."""
    awake_bytes: int | None = None
    """Most bytes of weights and KV caches of the models that are awake. Default: half of the free memory."""
    asleep_bytes: int | None = None
    """Most bytes of weights of models that sleep in host memory. Default: a quarter of the free memory."""

    def options(self, models: Sequence[str]) -> dict[str, Any]:
        """Returns them as options of a platform. Raises ConfigError for one that says nothing without the others."""
        if not self.one_worker and (self.pin or self.awake_bytes is not None or self.asleep_bytes is not None):
            raise ConfigError("--pin, --awake-bytes and --asleep-bytes are for --one-worker", param="one_worker")
        if unknown := next((name for name in self.pin if name not in models), None):
            raise ConfigError(f"--pin {unknown}: there is no model of that name", param="pin")
        chosen = {"awake_bytes": self.awake_bytes, "asleep_bytes": self.asleep_bytes}
        given_bytes = {name: value for name, value in chosen.items() if value is not None}
        return {"shared_worker": self.one_worker, "pinned": self.pin, "residency_options": given_bytes}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ServiceCounts:
    """Numbers of processes of the services that may run more than once."""

    gateways: int = 1
    """Gateways, which share both ports."""
    schedulers: int = 1
    """Schedulers: one leads, the others stand by."""
    caches: int = 1
    """Caches, which divide their contents among them."""
    tokenizers: int = 2
    """Tokenizers: if one does not answer within a second, the next is asked."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """Numbers of workers."""

    replicas: int = 1
    """Workers per model."""
    prefill_workers: int = 0
    """Further workers per model that compute long prompts for these, so that their running answers go on evenly. Their
    KV blocks travel when that is expected to be sooner."""

    def check(self, *, shared: bool, engine: str | None) -> None:
        """Raises ConfigError for numbers that cannot be."""
        _check_counts({"replicas": self.replicas})
        if self.prefill_workers < 0:
            raise ConfigError(
                f"--prefill-workers is {self.prefill_workers}; it must be at least 0", param="prefill_workers"
            )
        if self.prefill_workers and (shared or engine not in (None, "model")):
            message = "--prefill-workers is for workers with one model of our own engine each"
            raise ConfigError(message, param="prefill_workers")


_MODEL_PARTS = ModelParts()
_WORKER_COUNTS = WorkerCounts()
_SHARED_WORKER = SharedWorker()
_SERVICE_COUNTS = ServiceCounts()
_REACH = Reach()


def up(
    *models: str,
    http_port: int = 8000,
    grpc_port: int = 9000,
    reach: Reach = _REACH,
    workers: WorkerCounts = _WORKER_COUNTS,
    shared: SharedWorker = _SHARED_WORKER,
    several: ServiceCounts = _SERVICE_COUNTS,
    state_dir: Path = DEFAULT_FOLDER,
    config: Path | None = None,
    nats: str = "",
    certificates: Path | None = None,
    engine: Literal["model", "sim", "vllm"] | None = None,
    worker_python: Path | None = None,
    parts: ModelParts = _MODEL_PARTS,
    run: ModelFlags = NO_FLAGS,
    strict: bool | None = None,
    start_silence_seconds: float = 60.0,
    log_level: Literal["debug", "info", "warning", "error"] | None = None,
    otlp_endpoint: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Runs the whole platform on this machine until Ctrl-C.

    Args:
        models: Folders with a Hugging Face checkpoint, GGUF files, hub ids, or names from the catalogue; NAME=SOURCE
            names one. Default: the bundled model, served as headrace-demo.
        http_port: Port of the OpenAI-compatible API; 0 picks a free one.
        grpc_port: Port of the gRPC API; 0 picks a free one.
        reach: Who reaches the platform.
        workers: Numbers of workers.
        shared: One worker for several models.
        several: Numbers of the other services.
        state_dir: Folder for logs and state. Platforms with different folders can run side by side.
        config: TOML file with a table per service, for all other settings.
        nats: A running NATS to use, such as nats://host:4222. Otherwise one is started.
        certificates: Folder of headrace certs: services and NATS then talk mutual TLS, and each role may do only what
            it has to. Default: plain text on loopback, with a credential.
        engine: model, the default, runs the checkpoint; vllm lets vLLM run it; sim imitates a model without weights.
        worker_python: Python that runs the workers, with Headrace and, for its engine, vLLM. Default: this one.
        parts: Drafts and adapters of the models.
        run: Options of the models.
        strict: Refuse unknown request fields.
        start_silence_seconds: Seconds without any progress after which a start is given up. While weights are packed
            or anything computes, it may take as long as it needs.
        log_level: Least severe level to log; default: info.
        otlp_endpoint: OTLP gRPC endpoint for traces, such as 127.0.0.1:4317.
        json: Print one JSON object per line; when ready, one with "event": "ready".
    """
    workers.check(shared=shared.one_worker, engine=engine)
    _check_counts(asdict(several))
    if config is not None and not config.is_file():
        raise ConfigError(f"there is no configuration file {config}", param="config")
    keys = choose_keys(reach, state_dir, config)
    sources = resolve(models, parts.draft, parts.lora)
    options = PlatformOptions(
        models=sources,
        **shared.options([source.name for source in sources]),
        http_port=http_port,
        grpc_port=grpc_port,
        host=reach.host,
        keys_file=keys.path,
        **asdict(workers),
        **asdict(several),
        nats_url=nats,
        config_file=config.absolute() if config else None,
        public_certificate=gateway_path("tls_certificate", config),
        certificates=certificates,
        engine=engine,
        worker_python=worker_python,
        model_options=given(run),
        service_options=_said(log_level=log_level, otlp_endpoint=otlp_endpoint),
        strict=strict,
        start_silence_seconds=start_silence_seconds,
    )
    if engine in (None, "model") and (warning := missing_kernels()):
        warn(warning)
    with StateFolder(state_dir) as state:
        asyncio.run(_run(options, state, _JsonView(keys) if json else _TerminalView(state_dir, keys)))


def _said(**options: str | None) -> dict[str, str]:
    """Returns the options that were given: only those go before files and the environment."""
    return {name: value for name, value in options.items() if value is not None}


def _check_counts(counts: dict[str, int]) -> None:
    """Raises ConfigError, with the name of the flag, for a number of processes below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"--{name} is {count}; it must be at least 1", param=name)


async def _run(options: PlatformOptions, state: StateFolder, view: "_JsonView | _TerminalView") -> None:
    stopping = asyncio.Event()
    platform = Platform(options, state, view.on_change)
    _stop_on_signal(stopping, platform)
    try:
        with view:
            starting = asyncio.create_task(platform.start())
            stopped = asyncio.create_task(stopping.wait())
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                return
            starting.result()
        view.on_ready(platform)
        await stopping.wait()
    finally:
        view.on_stopping()
        await platform.stop()


def _stop_on_signal(stopping: asyncio.Event, platform: Platform) -> None:
    """Stops the platform in order at the first signal, and at once at a second."""

    def on_signal() -> None:
        if stopping.is_set():
            platform.kill()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)


class _JsonView:
    """Prints one JSON object per line. A reader that leaves does not end the platform."""

    def __init__(self, keys: KeyChoice) -> None:
        self._keys = keys
        self._states: dict[str, str] = {}
        self._progress: dict[str, str] = {}

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def on_change(self, platform: Platform) -> None:
        for process in platform.processes:
            name, state = process.spec.name, process.state
            if self._states.get(name) != state:
                self._states[name] = state
                self._tell({"event": "service", "name": name, "state": state, "pid": process.pid})
            if process.progress != self._progress.get(name, ""):
                self._progress[name] = process.progress
                self._tell({"event": "progress", "name": name, "text": process.progress})

    def on_ready(self, platform: Platform) -> None:
        keys = {} if self._keys.path is None else {"keys": self._keys.count}
        self._tell({"event": "ready"} | platform.describe() | keys)

    def on_stopping(self) -> None:
        self._tell({"event": "stopping"})

    @staticmethod
    def _tell(event: dict[str, Any]) -> None:
        try:
            print_json(event)
        except BrokenPipeError:
            # The rest of the buffer goes nowhere too; otherwise the interpreter complains at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _TerminalView:
    """Shows a live table during the start, then what to try."""

    def __init__(self, state_dir: Path, keys: KeyChoice) -> None:
        self._keys = keys
        self._state_flag = "" if state_dir == DEFAULT_FOLDER else f" --state-dir {state_dir}"
        self._live = Live(console=console, refresh_per_second=10, transient=False)
        self._started = time.monotonic()

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_change(self, platform: Platform) -> None:
        if self._live.is_started:
            self._live.update(_service_table(platform))

    def on_ready(self, platform: Platform) -> None:
        console.print(f"\n[bold green]Ready[/] in {time.monotonic() - self._started:.1f} s.")
        console.print(f"  REST  {platform.http_url}/v1\n  gRPC  {platform.grpc_address}")
        if platform.lan_url:
            console.print(f"  LAN   {platform.lan_url}/v1   [dim]for other machines[/]")
        if self._keys.path is not None:
            console.print(f"  keys are needed: {self._keys.count} known   [dim]HEADRACE_API_KEY=sk-…[/]")
        console.print(
            f"  logs  {platform.logs_folder}   [dim]{_own_command()} logs{self._state_flag}[/]", soft_wrap=True
        )
        console.print("\n[dim]Try, in another terminal:[/]")
        chat = f"{_own_command()} chat{self._state_flag}"
        for line in examples(platform.models, platform.http_url, chat, needs_key=self._keys.path is not None):
            console.print(f"  {line}", soft_wrap=True, markup=False)
        console.print("\n[dim]Ctrl-C stops everything.[/]")

    def on_stopping(self) -> None:
        console.print("[dim]Stopping: running requests may end first …[/]")


def _own_command() -> str:
    """Returns the command line that runs this program from the current folder."""
    if shutil.which("headrace"):
        return "headrace"
    path = Path(sys.argv[0]).absolute()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _service_table(platform: Platform) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for title in ("service", "state", "pid", "address", "model"):
        table.add_column(title)
    for process in platform.processes:
        is_starting = process.state == "starting" and process.progress
        state = Text(process.progress if is_starting else process.state, style=_STYLES[process.state])
        spec = process.spec
        table.add_row(spec.name, state, str(process.pid or ""), spec.address(), spec.model)
    return table
