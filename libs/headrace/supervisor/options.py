"""Options of a local platform."""

from dataclasses import dataclass
from pathlib import Path

from headrace.launch.platform_spec import PlatformSpec


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    """Options of `headrace up`: the platform, and what only matters on one machine."""

    platform: PlatformSpec
    http_port: int = 8000
    """Port of the REST bridge. 0 picks a free one."""
    host: str = "127.0.0.1"
    """Address on which the two are served."""
    grpc_port: int = 9000
    """Port of the gRPC API. 0 picks a free one."""
    nats_url: str = ""
    """URL of a running NATS. Empty starts one."""
    public_certificate: Path | None = None
    """Certificate that the REST bridge shows, as the gateways' settings name it. None: it speaks plain HTTP."""
    certificates: Path | None = None
    """Folder of `headrace certs`. None: the services talk in plain text."""
    worker_python: Path | None = None
    """Python that runs the workers, such as one that has vLLM. None: this one."""
    start_silence_seconds: float = 60.0
    """Seconds without any progress of a start after which it is given up."""

    frozen_seconds: float = 2.0
    """Seconds after which a process that was ready, does not answer and does nothing is killed and started again."""
