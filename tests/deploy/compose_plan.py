"""The platform of the compose file, as its plan has it: the same plan that `headrace up` carries out."""

from dataclasses import replace
from pathlib import Path

from headrace.launch.nats_spec import NatsSpec
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.site import ProcessSite, Site

SPEC = PlatformSpec(
    [ModelSource("headrace-demo", Path("/opt/headrace/demo-model"))],
    # A container that ends is started again by Docker, so that one is enough.
    tokenizers=1,
    model_options={"packed_folder": Path("/var/lib/headrace/packed"), "thread_count": 0},
    service_options={"log_level": "info", "otlp_endpoint": "otel-collector:4317"},
)
STORED = Path("/var/lib/headrace")
SITE = Site(
    processes={
        "gateway": ProcessSite("0.0.0.0:9000", "gateway:9000"),
        "tokenizer": ProcessSite("0.0.0.0:9101", "tokenizer:9101", metrics_port=9201),
        "scheduler": ProcessSite("0.0.0.0:9102", "scheduler:9102", metrics_port=9202),
        "cache": ProcessSite("0.0.0.0:9103", "cache:9103", metrics_port=9203, folder=STORED),
        "worker-0": ProcessSite("0.0.0.0:9104", "worker:9104", metrics_port=9204),
    },
    http_address="0.0.0.0:8000",
    nats_url="nats://nats:4222",
    nats=NatsSpec(Path("/credential/nats.conf"), Path("/data"), monitoring_port=8222),
    files_folder=STORED / "files",
    credential_file=Path("/credential/credential"),
)
ROLES = ("gateway", "tokenizer", "scheduler", "cache", "worker")
CERTIFIED = replace(
    SITE,
    # Relative to /certificates, where the server is started.
    nats=NatsSpec(Path("nats.conf"), Path("/data"), monitoring_port=8222),
    certificates=dict.fromkeys(ROLES, Path("/certificates")),
)
"""The same with `deploy/docker/certificates.yml`."""
