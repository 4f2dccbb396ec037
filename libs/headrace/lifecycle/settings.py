"""Settings that every process has."""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from headrace.settings import Settings
from headrace.settings.secret import Secret

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.sampling import Sampler


class ServiceSettings(Settings):
    """Settings that every service needs."""

    service_id: str = Field(min_length=1)
    """Unique name of this process, in logs, traces, the registry and on the bus."""
    listen_address: str = "127.0.0.1:0"
    """Address to serve gRPC on. Port 0 picks a free one."""
    probe_address: str = ""
    """Another address to serve gRPC on, of this process alone, where several share the first one. Empty serves none."""
    advertise_address: str = ""
    """Address at which others reach it. Empty means the one it listens on."""
    nats_url: str = "nats://127.0.0.1:4222"
    """URL of NATS, or those of several servers of a cluster, separated by commas: any of them is enough. With a secret,
    as in nats://TOKEN@host:4222, it belongs into the environment."""
    nats_replicas: int = Field(default=1, ge=1, le=5)
    """Servers of NATS that keep the registry, leases and budgets each: 3 in a cluster of three, of which any one may
    then be lost."""
    credential: Secret = ""
    """Secret that the services of a platform share and show each other. Belongs into the environment, not on the
    command line. Empty: internal services answer every caller that reaches them."""
    credential_file: Path | None = None
    """File with that secret, instead of the secret itself. NATS gets it too, where its URL has no secret."""
    certificates: Path | None = None
    """Folder with the certificate (tls.crt), the key (tls.key) and the authority (ca.crt) of this service's role, as
    `headrace certs` makes them. Services and NATS then speak mutual TLS. Unset: plain text."""
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")
    """Lowest level that is logged."""
    otlp_endpoint: str = ""
    """OTLP gRPC endpoint for traces, such as 127.0.0.1:4317. Empty records none."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port for this process's own Prometheus metrics. 0 serves none."""
    instance: int = Field(default=0, ge=0)
    """Number of this process among those of its kind on this machine, which share a configuration: its metrics are on
    `metrics_port` plus this number."""
    failpoints: Path | None = None
    """For tests only: a folder in which `<service_id>/<point>` switches a failpoint of the code on."""
    drain_seconds: float = Field(default=6.0, gt=0)
    """Time that running work is given to end after a stop signal."""

    def trace_sampler(self) -> "Sampler | None":
        """Returns what decides which traces are recorded. None: the caller does."""
        return None
