"""Flags of `headrace up`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headrace.cli.commands.up.memory_plan import MemoryPlan
from headrace.cli.duration import parse_duration
from headrace.cli.key_choice import KeyChoice, Reach, choose_keys
from headrace.cli.model_flags import NO_FLAGS, ModelFlags, given
from headrace.cli.parsing.byte_size import parse_size
from headrace.cli.reach.gateway_setting import gateway_path
from headrace.cli.reach.public_addresses import PublicAddresses, public_addresses
from headrace.errors import ConfigError
from headrace.launch.platform_spec import PlatformSpec
from headrace.launch.worker_bounds import WorkerBounds
from headrace.supervisor.model_source import name_of, resolve
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.ports import MAX_PORT
from headrace.supervisor.state import DEFAULT_FOLDER


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ModelParts:
    """Drafts and adapters: parts that belong to one model."""

    draft: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A small model of the same family that drafts for a model, or an EAGLE-3 head that was trained for it:
    NAME=SOURCE, or SOURCE if there is one model. The text stays the same, bit for bit."""
    lora: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A LoRA adapter as PEFT saves it, served as a separate model: NAME=FOLDER, or MODEL:NAME=FOLDER if there are
    several models."""
    chat_template: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A file with a Jinja template that replaces the model's: FILE, or NAME=FILE if there are several models."""
    alias: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A further name of a model, ALIAS=MODEL, such as gpt-4o=headrace-demo for programs that have names built in."""

    def aliases(self, models: Sequence[str]) -> dict[str, str]:
        """Returns models by their further names. Raises ConfigError."""
        found = {}
        for pair in self.alias:
            name, _, model = pair.partition("=")
            if model not in models:
                raise ConfigError(f"--alias {pair} must be ALIAS=MODEL; models: {', '.join(models)}", param="alias")
            found[name_of(name)] = model
        return found


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class SharedWorker:
    """One worker for several models, which take turns: some are awake, the others sleep until they are asked."""

    one_worker: Annotated[bool, Parameter(negative="")] = False
    """Serve all models from one worker, with memory for some of them."""
    pin: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """A model that never sleeps; may be repeated."""
    awake_bytes: int | None = None
    """Maximum bytes of weights and KV caches of the models that are awake. Default: half of the free memory, or four
    fifths of that of a GPU."""
    asleep_bytes: int | None = None
    """Maximum bytes of weights of models that sleep in host memory. Default: a quarter of the free memory."""

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
    """Workers per model, or with --autoscale of those at the start."""
    autoscale: str = ""
    """Fewest and most workers per model, MIN:MAX, of which there are as many as the traffic needs. With 0, a model has
    none after ten minutes without requests, and the next one waits while a worker starts."""
    prefill_workers: int = 0
    """Further workers per model that compute long prompts for these, so that their running answers continue evenly.
    Their KV blocks travel when that is expected to be sooner."""

    def check(self, *, shared: bool, engine: str | None) -> None:
        """Raises ConfigError for numbers that cannot be."""
        _check_counts({"replicas": self.replicas})
        if self.autoscale and (shared or self.prefill_workers):
            message = "--autoscale is for workers with one model each, which compute prompts themselves"
            raise ConfigError(message, param="autoscale")
        if self.prefill_workers < 0:
            raise ConfigError(
                f"--prefill-workers is {self.prefill_workers}; it must be at least 0", param="prefill_workers"
            )
        if self.prefill_workers and (shared or engine not in (None, "model")):
            message = "--prefill-workers is for workers with one model of our own engine each"
            raise ConfigError(message, param="prefill_workers")

    def options(self) -> dict[str, Any]:
        """Returns them as options of a platform. Raises ConfigError."""
        bounds = WorkerBounds.parse(self.autoscale) if self.autoscale else None
        replicas = self.replicas if bounds is None else max(1, bounds.clamp(self.replicas))
        return {"replicas": replicas, "worker_bounds": bounds, "prefill_workers": self.prefill_workers}


_MODEL_PARTS = ModelParts()
_WORKER_COUNTS = WorkerCounts()
_SHARED_WORKER = SharedWorker()
_SERVICE_COUNTS = ServiceCounts()
_REACH = Reach()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class PlatformFlags:
    """All that a platform is started with, but for its models."""

    http_port: int | None = None
    """Port of the OpenAI-compatible API; 0 picks a free one. Default: that of the setting gateway.http_address, or
    8000."""
    grpc_port: int | None = None
    """Port of the gRPC API; 0 picks a free one. Default: that of the setting gateway.listen_address, or 9000."""
    reach: Reach = _REACH
    """Address of the platform, and keys."""
    workers: WorkerCounts = _WORKER_COUNTS
    """Numbers of workers."""
    shared: SharedWorker = _SHARED_WORKER
    """One worker for several models."""
    several: ServiceCounts = _SERVICE_COUNTS
    """Numbers of the other services."""
    state_dir: Path = DEFAULT_FOLDER
    """Folder for logs and state. Platforms with different folders can run side by side."""
    config: Annotated[Path | None, Parameter(env_var="HEADRACE_CONFIG")] = None
    """TOML file with a table per service, for all other settings."""
    nats: str = ""
    """A running NATS to use, such as nats://host:4222. Otherwise one is started."""
    certificates: Path | None = None
    """Folder of headrace certs: services and NATS then talk mutual TLS, and each role may do only what it has to.
    Default: plain text on loopback, with a credential."""
    engine: Literal["model", "sim", "vllm"] | None = None
    """model, the default, runs the checkpoint; vllm lets vLLM run it; sim imitates a model without weights."""
    worker_python: Path | None = None
    """Python that runs the workers, with Headrace and, for its engine, vLLM. Default: this one."""
    parts: ModelParts = _MODEL_PARTS
    """Drafts and adapters of the models."""
    run: ModelFlags = NO_FLAGS
    """Options of the models."""
    memory: str = ""
    """Main memory of the whole platform, such as 8G. It is divided over its processes: weights, as the files have
    them, and the rest for KV caches. Default: each worker decides alone, by the free memory."""
    keep_alive: str = ""
    """Time without a request after which a model gives up its memory, such as 10m; the next request brings it back.
    Default: that of the setting worker.keep_alive_seconds, or models stay."""
    kv_folder: Path | None = None
    """Folder on a local disk for KV blocks that memory has no more room for, and that outlive their worker: prompts
    that begin like earlier ones are read from there instead of computed. Default: none are kept."""
    kv_folder_size: str = ""
    """Room that each worker takes there, such as 8G. Default: 4G."""
    kv_store_size: str = ""
    """Room in each cache for KV blocks that all workers share, such as 8G: a prompt that begins like one of any worker,
    running or not, is continued from there. Default: none are shared."""
    strict: bool | None = None
    """Refuse unknown request fields."""
    start_silence_seconds: float = 60.0
    """Seconds without any progress after which a start is given up. While weights are packed or anything computes, it
    may take as long as it needs."""
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    """Lowest level to log; default: info."""
    otlp_endpoint: str | None = None
    """OTLP gRPC endpoint for traces, such as 127.0.0.1:4317."""

    def check(self) -> None:
        """Raises ConfigError for numbers that cannot be, and for a configuration file that is missing."""
        self.workers.check(shared=self.shared.one_worker, engine=self.engine)
        _check_counts(asdict(self.several))
        _check_ports({"http-port": self.http_port, "grpc-port": self.grpc_port})
        if self.config is not None and not self.config.is_file():
            raise ConfigError(f"there is no configuration file {self.config}", param="config")

    def keys(self) -> KeyChoice:
        """Returns the keys that let callers in. Raises ConfigError, see `choose_keys`."""
        return choose_keys(replace(self.reach, host=self.addresses.host), self.state_dir, self.config)

    @property
    def addresses(self) -> PublicAddresses:
        """Addresses on which the platform is reached. Raises ConfigError."""
        return public_addresses(self.reach.host, self.http_port, self.grpc_port, self.config)

    def options(self, models: Sequence[str], keys: KeyChoice) -> PlatformOptions:
        """Returns the options of the platform. Finds its models. Raises ConfigError."""
        platform, addresses = self._platform(models, keys), self.addresses
        return PlatformOptions(
            platform,
            http_port=addresses.http_port,
            grpc_port=addresses.grpc_port,
            host=addresses.host,
            nats_url=self.nats,
            public_certificate=gateway_path("tls_certificate", self.config),
            certificates=self.certificates,
            worker_python=self.worker_python,
            start_silence_seconds=self.start_silence_seconds,
        )

    def memory_plan(self, spec: PlatformSpec) -> MemoryPlan | None:
        """Divides the memory that was given. None: none was. Raises ConfigError where it is too little, or not what is
        asked for."""
        if not self.memory:
            return None
        chosen = spec.model_options.keys() | spec.residency_options.keys()
        if other := next((name for name in ("kv_cache_bytes", "block_count", "awake_bytes") if name in chosen), None):
            raise ConfigError(f"--memory divides it all: give it or --{other.replace('_', '-')}", param="memory")
        if self.engine not in (None, "model") or str(spec.model_options.get("device", "cpu")) != "cpu":
            raise ConfigError("--memory is for models of our own engine on processors, not for GPUs", param="memory")
        if self.workers.autoscale:
            message = "--memory divides it over workers whose number is known: give it or --autoscale"
            raise ConfigError(message, param="memory")
        return MemoryPlan.of(parse_size(self.memory, "memory"), spec)

    def _keep_alive(self) -> dict[str, float]:
        """Returns the setting of workers. Raises InvalidRequest for a text that is no time."""
        return {"keep_alive_seconds": parse_duration(self.keep_alive, "keep-alive")} if self.keep_alive else {}

    def _kept_blocks(self) -> dict[str, object]:
        """Returns the settings of workers. Raises ConfigError for a size without a folder, and for a text that is no
        size."""
        if self.kv_folder is None:
            if self.kv_folder_size:
                raise ConfigError(
                    "--kv-folder-size is the room in a folder: name it with --kv-folder", param="kv_folder"
                )
            return {}
        room = {"kv_folder_bytes": parse_size(self.kv_folder_size, "kv-folder-size")} if self.kv_folder_size else {}
        return {"kv_folder": str(self.kv_folder.expanduser().absolute()), **room}

    def _platform(self, models: Sequence[str], keys: KeyChoice) -> PlatformSpec:
        sources = resolve(models, self.parts.draft, self.parts.lora, self.parts.chat_template)
        names = [source.name for source in sources]
        shared = self.shared.options(names)
        shared["residency_options"] |= self._keep_alive() | self._kept_blocks()
        return PlatformSpec(
            sources,
            **shared,
            **self.workers.options(),
            **asdict(self.several),
            aliases=self.parts.aliases([*names, *(adapter for source in sources for adapter in source.adapters)]),
            model_order=names,
            config_file=self.config.absolute() if self.config else None,
            keys_file=keys.path or keys.awaited,
            keys_optional=keys.path is None and keys.awaited is not None,
            engine=self.engine,
            model_options=given(self.run),
            service_options=_said(log_level=self.log_level, otlp_endpoint=self.otlp_endpoint),
            kv_store_bytes=parse_size(self.kv_store_size, "kv-store-size") if self.kv_store_size else 0,
            strict=self.strict,
        )


def _said(**options: str | None) -> dict[str, str]:
    """Returns the options that were given: only those go before files and the environment."""
    return {name: value for name, value in options.items() if value is not None}


def _check_ports(ports: dict[str, int | None]) -> None:
    """Raises ConfigError, with the name of the flag, for a number that is no port."""
    for name, port in ports.items():
        if port is not None and not 0 <= port <= MAX_PORT:
            raise ConfigError(f"--{name} is {port}; a port is a number from 0 to {MAX_PORT}", param=name)


def _check_counts(counts: dict[str, int]) -> None:
    """Raises ConfigError, with the name of the flag, for a number of processes below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ConfigError(f"--{name} is {count}; it must be at least 1", param=name)
