"""The gateway's settings."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from headrace.errors import ConfigError
from headrace.lifecycle import ServiceSettings
from headrace.settings.addresses import Addresses
from headrace.settings.names import Names
from headrace.settings.names_by_name import NamesByName
from headrace.settings.seconds_by_name import SecondsByName
from headrace.settings.web.web_names import HostNames, Origins
from headrace.telemetry.traces import edge_sampler

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.sampling import Sampler


class GatewaySettings(ServiceSettings):
    """Settings of the gateway service. `listen_address` is the public gRPC address."""

    service_id: str = "gateway"
    """Unique name of this process."""
    listen_address: str = "127.0.0.1:9000"
    """Address of the public gRPC API."""
    http_address: str = "127.0.0.1:8000"
    """Address of the REST bridge. Port 0 picks a free one."""
    allowed_hosts: HostNames = ()
    """Host names, without ports, by which clients may call the REST bridge; * allows any. Names of the machine itself,
    such as localhost, are always allowed. Empty allows any name if the address is reachable from outside, otherwise no
    other."""
    allowed_origins: Origins = ()
    """Web pages that may use the REST bridge, as SCHEME://HOST:PORT; * allows every one."""
    http_socket: int = Field(default=-1, ge=-1)
    """File descriptor of a listening socket for the REST bridge, inherited from the process that started the gateway
    and keeps the socket across restarts. -1: the gateway listens on http_address itself."""
    tokenizer_addresses: Addresses = ("127.0.0.1:9101",)
    """Addresses of the tokenizers. If one does not answer, the next is asked."""
    scheduler_addresses: Addresses = ("127.0.0.1:9102",)
    """Addresses of the schedulers. While none answers, the gateway places requests itself."""
    cache_addresses: Addresses = ("127.0.0.1:9103",)
    """Addresses of the caches. While none is available, every request is computed."""
    keys_file: Path | None = None
    """File of API keys, made by `headrace keys`. Unset: no key is needed."""
    keys_optional: bool = False
    """Whether nothing is asked for until the file of keys exists. From then on a key is needed, also if the file is
    removed again."""
    jwt_keys: str = ""
    """Public keys of an identity provider, as the path or the URL of a JSON Web Key Set: its tokens work like API keys.
    Empty: they do not."""
    jwt_issuer: str = ""
    """Issuer that a token must name."""
    jwt_audience: str = ""
    """Audience that a token must name."""
    jwt_tenant_claim: str = "tenant"
    """Claim that names the tenant. A token without it has its own, by its subject."""
    tls_certificate: Path | None = None
    """PEM file with the certificate chain of the REST bridge and the public gRPC API. Unset: they speak plain text."""
    tls_key: Path | None = None
    """PEM file with the private key of the certificate."""
    filters_file: Path | None = None
    """TOML file of findings to mask or block in inputs and outputs, with a table per tenant and one called default.
    Unset: nothing is."""
    usage_folder: Path | None = None
    """Folder for records of what each request used. Unset: none are kept."""
    usage_prompt_blocks: bool = False
    """Whether these records also tell which prompts begin alike, by keyed hashes of 512 tokens each: what `headrace
    simulate` needs to know what prefix caches would hold. Never any text."""
    files_folder: Path | None = None
    """Folder for the files and batches of clients, on a volume that all gateways share. Unset: /v1/files and
    /v1/batches answer that there is none."""
    file_max_bytes: int = Field(default=200 * 1024 * 1024, ge=1024)
    """Largest file, in bytes."""
    tenant_file_bytes: int = Field(default=10 * 1024**3, ge=1024)
    """Maximum bytes of all files of a tenant."""
    file_seconds: float = Field(default=30 * 86400.0, gt=0)
    """Seconds for which files are kept whose makers do not say, and batches that have ended."""
    batch_max_lines: int = Field(default=50_000, ge=1)
    """Maximum number of requests of one batch."""
    batch_seconds: float = Field(default=86400.0, gt=0)
    """Seconds after which a batch expires: the length of the completion window that is called 24h."""
    batch_concurrency: int = Field(default=16, ge=1, le=1024)
    """Maximum number of batch requests that one gateway runs at once."""
    workers_file: Path | None = None
    """File that stores worker addresses, so that a gateway that starts while NATS is away finds its workers."""
    strict: bool = False
    """Whether unknown request fields are refused instead of listed in x-headrace-ignored-fields."""
    model_order: Names = ()
    """Models in the order in which /v1/models lists them: headrace up gives that of its command line. Others follow by
    their names."""
    aliases: NamesByName = Field(default_factory=dict)
    """ALIAS=MODEL: further names of models, such as names that clients of other platforms have built in. Answers name
    the model."""
    keeps_models: bool = False
    """Whether a model whose workers have all ended is still served: one is started when it is asked for. Otherwise it
    is unknown ten minutes later."""
    models_file: Path | None = None
    """File of what was loaded, unloaded and named while the platform ran: see headrace models. Read when it changes."""
    overflow: NamesByName = Field(default_factory=dict)
    """MODEL=SMALLER: the model that answers requests when the queue of MODEL is full, or MODEL sleeps for too long. The
    answer says so in `model` and in x-headrace-overflow."""
    overflow_wait_seconds: float = Field(default=math.inf, ge=0)
    """Predicted time until a sleeping model is awake from which on the overflow model answers, if it is sooner. inf:
    requests wait however long it takes."""
    max_body_bytes: int = Field(default=8 * 1024 * 1024, ge=1024)
    """Largest request body, in bytes."""
    max_body_elements: int = Field(default=500_000, ge=1000)
    """Maximum number of values in the lists and objects of one request body."""
    max_upload_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    """Maximum bytes of request bodies that arrive at the same time. Beyond that, all but small bodies are refused as
    overloaded."""
    max_connections: int = Field(default=4096, ge=1)
    """Maximum number of open connections to the REST bridge. Clients beyond that are asked to retry later."""
    idle_seconds: float = Field(default=75.0, gt=0)
    """Seconds for which a connection may stay open between two requests."""
    header_seconds: float = Field(default=10.0, gt=0)
    """Seconds within which a client must send the head of its request."""
    body_seconds: float = Field(default=60.0, gt=0)
    """Seconds within which a client must send the body of its request."""
    unread_seconds: float = Field(default=30.0, gt=0)
    """Seconds for which a finished response may wait for a client that does not read it."""
    max_open_requests: int = Field(default=1024, ge=1)
    """Maximum number of open requests. More are refused as overloaded."""
    max_choices: int = Field(default=128, ge=1)
    """Maximum number of sequences that one request may ask for (prompts times n)."""
    ends_at_window: bool = False
    """Whether a chat or completion whose max_tokens is more than fits after its prompt ends where the context does,
    with the reason `length`. Otherwise it is refused, as by OpenAI. Messages and Responses always end there."""
    max_inputs: int = Field(default=2048, ge=1)
    """Maximum number of inputs of one embeddings request."""
    default_timeout_seconds: float = Field(default=600.0, gt=0)
    """Deadline, in seconds, of a request that does not set its own."""
    heartbeat_seconds: float = Field(default=5.0, gt=0)
    """Seconds without events after which a stream gets an SSE comment."""
    resume_seconds: float = Field(default=60.0, ge=0)
    """Seconds after its last token for which a stream can be resumed, at any gateway. 0: events carry no ids, and
    streams end with their connection."""
    worker_silence_seconds: float = Field(default=1.6, gt=0)
    """Seconds of silence after which a worker counts as lost."""
    worker_stall_seconds: float = Field(default=60.0, gt=0)
    """Seconds without a step after which a worker that holds requests counts as lost."""
    max_attempts: int = Field(default=5, ge=1)
    """Maximum number of times that one request is placed when workers are lost, each within five seconds of its tokens.
    The loss of a worker that computed it for longer is the first again."""
    recent_requests: int = Field(default=512, ge=1, le=100_000)
    """Number of requests that GET /headrace/requests remembers."""
    trace_ratio: float = Field(default=1.0, ge=0, le=1)
    """Share of requests whose trace is recorded, where otlp_endpoint is set."""
    obeys_traceparent: bool = False
    """Whether the sampled flag of a client's traceparent decides instead of trace_ratio."""
    metrics_compat: Literal["none", "vllm"] = "none"
    """vllm: also shows the metrics that dashboards made for vLLM read, under its names."""
    ttft_targets: SecondsByName = Field(
        default_factory=lambda: {"realtime": 0.3, "interactive": 1.0, "default": 5.0, "batch": 300.0}
    )
    """CLASS=SECONDS: the time to the first token that requests of each class are to get."""
    tpot_targets: SecondsByName = Field(
        default_factory=lambda: {"realtime": 0.05, "interactive": 0.1, "default": 0.2, "batch": 2.0}
    )
    """CLASS=SECONDS: the mean time per output token after the first that requests of each class are to get."""

    @model_validator(mode="after")
    def _check(self) -> "GatewaySettings":
        if self.jwt_keys and not (self.jwt_issuer and self.jwt_audience):
            raise ConfigError("jwt_keys needs jwt_issuer and jwt_audience: tokens for others must not work here")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("tls_certificate and tls_key belong together: one of them is not set")
        return self

    @property
    def tls_files(self) -> tuple[Path, Path] | None:
        """Certificate chain and key that clients see. None: they speak plain text."""
        return None if self.tls_certificate is None or self.tls_key is None else (self.tls_certificate, self.tls_key)

    def trace_sampler(self) -> "Sampler":
        """Returns the sampler of a service that strangers call."""
        return edge_sampler(self.trace_ratio, self.obeys_traceparent)
