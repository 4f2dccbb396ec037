"""Options of a local platform."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.engine.memory.host_cores import usable_core_count
from headrace.supervisor.model_source import ModelSource


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """Options of `headrace up`."""

    models: list[ModelSource]
    http_port: int = 8000
    """Port of the REST bridge. 0 picks a free one."""
    host: str = "127.0.0.1"
    """Address on which the two are served."""
    grpc_port: int = 9000
    """Port of the gRPC API. 0 picks a free one."""
    replicas: int = 1
    """Workers per model that run whole requests."""
    prefill_workers: int = 0
    """Workers per model that compute prompts for those. 0: each computes its own."""
    shared_worker: bool = False
    """Whether one worker serves all models, which take turns on its device."""
    pinned: Sequence[str] = ()
    """Models that stay awake in a shared worker."""
    residency_options: Mapping[str, object] = field(default_factory=dict)
    """Settings of a shared worker that the user chose, such as awake_bytes, by their names in its settings."""
    gateways: int = 1
    """Gateways. They share both ports."""
    schedulers: int = 1
    caches: int = 1
    tokenizers: int = 2
    """Tokenizers: two, because nothing else can encode a text while one is away."""
    nats_url: str = ""
    """URL of a running NATS. Empty starts one."""
    config_file: Path | None = None
    keys_file: Path | None = None
    """File of API keys. None: the gateways' settings decide, and without any no key is needed."""
    public_certificate: Path | None = None
    """Certificate that the REST bridge shows, as the gateways' settings name it. None: it speaks plain HTTP."""
    certificates: Path | None = None
    """Folder of `headrace certs`. None: the services talk in plain text."""
    engine: str | None = None
    """Engine of the workers: model, vllm or sim. None leaves it to their settings."""
    worker_python: Path | None = None
    """Python that runs the workers, such as one that has vLLM. None: this one."""
    model_options: Mapping[str, object] = field(default_factory=dict)
    """Options of every model that the user chose, by their names in `EngineConfig`. All others are left to the
    environment, the file and the defaults."""
    service_options: Mapping[str, object] = field(default_factory=dict)
    """Settings of every service that the user chose, by their names in `ServiceSettings`."""
    strict: bool | None = None
    """Whether unknown request fields are refused. None leaves it to the gateway's settings."""
    start_silence_seconds: float = 60.0
    """Seconds without any progress of a start after which it is given up."""

    frozen_seconds: float = 2.0
    """Seconds after which a process that was ready, does not answer and does nothing is killed and started again."""

    @property
    def thread_count(self) -> int:
        """Threads per worker where no number is given: the cores, shared out. 0 leaves it to the only worker."""
        worker_count = (self.replicas + self.prefill_workers) * (1 if self.shared_worker else len(self.models))
        return 0 if worker_count == 1 else max(1, usable_core_count() // worker_count)
