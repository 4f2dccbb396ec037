"""Settings of the endpoint picker."""

from pathlib import Path

from pydantic import Field

from headrace.errors import ConfigError
from headrace.scheduler.core.foresight.refusal_terms import RefusalTerms
from headrace.scheduler.core.policy import Policy
from headrace.scheduler.core.queueing.urgency import Urgency
from headrace.scheduler.picker.endpoints.pool_endpoint import EndpointLimits
from headrace.scheduler.picker.requests.proxied_request import OrderTerms
from headrace.scheduler.picker.servicer import StreamTerms
from headrace.settings import Settings
from headrace.settings.names import Names
from headrace.settings.names_by_name import NamesByName

USUAL_CLASSES = {
    "realtime": Urgency.REALTIME,
    "interactive": Urgency.INTERACTIVE,
    "default": Urgency.DEFAULT,
    "batch": Urgency.BATCH,
}


class PickerSettings(Settings):
    """Settings of the endpoint picker."""

    listen_address: str = "0.0.0.0:9002"
    """Address to serve Envoy's external processing on."""
    endpoints: Names = ()
    """Endpoints of the pool, as IP:PORT."""
    endpoints_file: Path | None = None
    """File with further endpoints, one a line. It is read again when it has changed."""
    service: str = ""
    """NAME:PORT of a headless service, whose addresses are endpoints too. It is resolved again and again."""
    list_seconds: float = Field(default=2.0, gt=0)
    """Time after which the file and the service are read again."""
    scrape_seconds: float = Field(default=0.5, gt=0)
    """Time between two scrapes of an endpoint's metrics."""
    scrape_timeout_seconds: float = Field(default=1.0, gt=0)
    """Time after which a scrape has failed."""
    max_failed_scrapes: int = Field(default=2, ge=1)
    """Scrapes that fail one after the other until an endpoint is not ready."""
    metrics_path: str = Field(default="/metrics", pattern="^/")
    """Path of the metrics of endpoints."""
    max_endpoint_request_count: int = Field(default=256, ge=1)
    """Requests that an endpoint is given at once."""
    max_endpoint_waiting_count: int = Field(default=8, ge=0)
    """Requests that may wait at an endpoint, by its metrics, before it is given no more."""
    max_endpoint_token_count: int = Field(default=65_536, ge=1)
    """Prompt tokens that may wait at an endpoint, but for a single longer prompt."""
    queue_seconds: float = Field(default=5.0, gt=0)
    """Time for which a request waits while all endpoints are full. Shorter than the gateway's time for a message."""
    max_waiting_count: int = Field(default=2048, ge=1)
    """Requests that wait at most."""
    fallback_count: int = Field(default=2, ge=0, le=16)
    """Endpoints that are named beside the picked one, to be tried in order if it fails."""
    max_prefix_count: int = Field(default=8192, ge=0)
    """Pieces of prompts that are remembered of each endpoint, of 64 tokens each."""
    tenant_header: str = "x-llm-d-inference-fairness-id"
    """Header that names the tenant. Tenants share endpoints fairly while requests wait. Empty: all are one."""
    objectives: NamesByName = Field(default_factory=dict)
    """Classes of requests by their objective (x-llm-d-inference-objective): realtime, interactive, default or batch.
    Objectives of these names need none."""
    refused_late_classes: Names = ()
    """Classes whose requests are refused if, by prediction, no endpoint can give their first token in time."""
    max_body_bytes: int = Field(default=16 * 1024 * 1024, ge=1)
    """Size of a request's body. A larger one is refused."""
    max_held_body_bytes: int = Field(default=1024 * 1024 * 1024, ge=1)
    """Size of all bodies that are held at once."""
    max_stream_count: int = Field(default=16_384, ge=1)
    """Requests that are open at once."""
    body_seconds: float = Field(default=30.0, gt=0)
    """Time between two parts of a request's body."""
    response_seconds: float = Field(default=900.0, gt=0)
    """Time between two parts of a response, after which it is not watched any more."""
    tls_certificate: Path | None = None
    """Certificate chain to serve TLS with. Unset: plain text."""
    tls_key: Path | None = None
    """Its key."""
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Port for the picker's own Prometheus metrics. 0 serves none."""
    drain_seconds: float = Field(default=6.0, gt=0)
    """Time that open streams are given to end after a stop signal."""
    log_level: str = Field(default="info", pattern="^(debug|info|warning|error)$")
    """Lowest level that is logged."""

    def policy(self) -> Policy:
        """The part that the core follows. Batches gain nothing here, and a ticket's deadline is the end of its wait."""
        return Policy(
            max_waiting_count=self.max_waiting_count,
            max_batch_token_count=self.max_endpoint_token_count,
            max_window_seconds=0.0,
            no_worker_seconds=self.queue_seconds,
            refusal=RefusalTerms(past_deadline=frozenset(), late=frozenset(map(_class_of, self.refused_late_classes))),
        )

    def limits(self) -> EndpointLimits:
        """Limits of each endpoint."""
        return EndpointLimits(self.max_endpoint_request_count, self.max_endpoint_waiting_count, self.max_failed_scrapes)

    def orders(self) -> OrderTerms:
        """Terms on which requests are distinguished. Raises ConfigError."""
        named = {objective: _class_of(name) for objective, name in self.objectives.items()}
        return OrderTerms(self.tenant_header.lower(), {**USUAL_CLASSES, **named})

    def streams(self) -> StreamTerms:
        """Limits of streams."""
        return StreamTerms(self.max_stream_count, self.body_seconds, self.response_seconds)

    @property
    def tls_files(self) -> tuple[Path, Path] | None:
        """Certificate and key. None: it serves plain text. Raises ConfigError."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("tls_certificate and tls_key belong together: one of them is not set")
        return None if self.tls_certificate is None or self.tls_key is None else (self.tls_certificate, self.tls_key)


def _class_of(name: str) -> Urgency:
    if name not in USUAL_CLASSES:
        raise ConfigError(f"{name[:40]!r} is no class of requests; there are: {', '.join(USUAL_CLASSES)}")
    return USUAL_CLASSES[name]
