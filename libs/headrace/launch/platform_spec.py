"""Description of a platform, wherever it runs: its models, how many processes there are, and what the user chose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.launch.worker_bounds import WorkerBounds


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model to serve."""

    name: str
    folder: Path
    """A Hugging Face folder, or a GGUF file."""
    draft: Path | None = None
    """The folder of a small model that drafts for it."""
    chat_template: Path | None = None
    """File with a Jinja template that replaces the model's. None: the model's own."""
    adapters: Mapping[str, Path] = field(default_factory=dict)
    """Folders of LoRA adapters, each served under its name."""
    worker_numbers: tuple[int, ...] | None = None
    """Numbers of its workers that run whole requests. None: as many as usual, which follow those of the models
    before."""


@dataclass(frozen=True, slots=True)
class PlatformSpec:
    """Models, numbers of processes and chosen options."""

    models: Sequence[ModelSource]
    replicas: int = 1
    """Workers per model that run whole requests."""
    worker_bounds: WorkerBounds | None = None
    """Bounds within which the number of a model's workers follows the demand. None: it is always `replicas`."""
    prefill_workers: int = 0
    """Workers per model that compute prompts for those. 0: each computes its own."""
    shared_worker: bool = False
    """Whether one worker serves all models, which take turns on its device."""
    pinned: Sequence[str] = ()
    """Models that stay awake, where models take turns in a shared worker or leave memory when idle."""
    residency_options: Mapping[str, object] = field(default_factory=dict)
    """Settings of workers about models awake and asleep that the user chose, by their names there."""
    gateways: int = 1
    """Gateways. On one machine they share both ports."""
    schedulers: int = 1
    caches: int = 1
    tokenizers: int = 2
    """Tokenizers: two, because nothing else can encode a text while one is away."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Models by further names that they are served under."""
    model_order: Sequence[str] = ()
    """Models in the order in which /v1/models lists them. Empty: by name."""
    config_file: Path | None = None
    keys_file: Path | None = None
    """File of API keys. None: the gateways' settings decide, and without any no key is needed."""
    keys_optional: bool = False
    """Whether no key is needed until the file exists."""
    engine: str | None = None
    """Engine of the workers: model, vllm or sim. None leaves it to their settings."""
    model_options: Mapping[str, object] = field(default_factory=dict)
    """Options of every model that the user chose, by their names in `EngineConfig`. All others are left to the
    environment, the file and the defaults."""
    service_options: Mapping[str, object] = field(default_factory=dict)
    """Settings of every service that the user chose, by their names in `ServiceSettings`."""
    kv_store_bytes: int = 0
    """Bytes of KV blocks that workers share through each cache. 0: they share none, unless settings say so."""
    strict: bool | None = None
    """Whether unknown request fields are refused. None leaves it to the gateway's settings."""

    @property
    def worker_count(self) -> int:
        """Number of workers that share the cores."""
        if self.shared_worker:
            return self.replicas + self.prefill_workers
        return sum(self.replicas_of(model) + self.prefill_workers for model in self.models)

    def replicas_of(self, model: ModelSource) -> int:
        """Returns the number of a model's workers that run whole requests."""
        return self.replicas if model.worker_numbers is None else len(model.worker_numbers)

    def thread_count(self, core_count: int) -> int:
        """Returns the threads per worker where no number is given: the cores, shared out. 0 leaves it to the only
        worker."""
        return 0 if self.worker_count <= 1 else max(1, core_count // self.worker_count)
