"""Plan of a platform on four hosts: what runs where, and what each process is given."""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.hosts.release import Release

from headrace import demo_model
from headrace.launch.nats_spec import DEFAULT_PORT, NatsSpec
from headrace.launch.plan import plan
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.launch.process_spec import ProcessSpec
from headrace.launch.roster import NATS_NAME
from headrace.launch.site import ProcessSite, Site
from headrace.security.certificates.certificate_folder import CertificateFolder
from headrace.security.certificates.role import NATS, ROLES
from headrace.security.nats_conf import FILE_NAME, nats_conf
from headrace.supervisor.nats_server import find_nats_server

PLACES = {
    "north": ("nats-0", "gateway", "scheduler", "cache"),
    "east": ("nats-1", "gateway-1", "tokenizer", "worker-0"),
    "south": ("nats-2", "scheduler-1", "tokenizer-1", "worker-1"),
    "west": ("cache-1", "worker-2"),
}
"""Processes of each host. No two hosts have the same kinds, and each kind is on two or more."""
NATS_NAMES = tuple(name for names in PLACES.values() for name in names if name.startswith(NATS_NAME))
PORTS = {"gateway": 9000, "tokenizer": 9101, "scheduler": 9102, "cache": 9103, "worker": 9104}
HTTP_PORT, MONITORING_PORT, ROUTE_PORT = 8000, 8222, 6222
CLUSTER = "headrace"


@dataclass(frozen=True)
class FleetOptions:
    """Choices of a platform on hosts that a test makes."""

    settings: tuple[tuple[str, object], ...] = ()
    """Settings of every service."""
    drain_seconds: float = 6.0
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of every process."""
    one_nats: bool = False
    """Whether a service is given one server of NATS, and learns of the others from it."""
    release: Release | None = None
    """Code that processes begin with. None: this checkout."""


def kind_of(name: str) -> str:
    return name.partition("-")[0]


def host_of(name: str) -> str:
    """Returns the host on which a process runs."""
    return next(host for host, names in PLACES.items() if name in names)


class FleetPlan:
    """Folders, certificates and plans of all hosts."""

    def __init__(self, folder: Path, options: FleetOptions) -> None:
        """Makes an authority, and gives each host the certificates of the roles that it has, and no other."""
        self._folder, self._options = folder, options
        made = CertificateFolder(folder / "authority")
        made.create(hosts=NATS_NAMES)
        for host, names in PLACES.items():
            for role in {kind_of(name) for name in names}:
                target = self._certificates(host) / role
                target.mkdir(parents=True)
                for path in made.role_folder(role).iterdir():
                    shutil.copy(path, target)

    def folder(self, host: str) -> Path:
        """State of a host, which no other reads."""
        return self._folder / "hosts" / host

    def store(self, nats: str) -> Path:
        """Folder of what a server of NATS keeps."""
        return self.folder(host_of(nats)) / "nats-store"

    def commands(self, host: str, release: Release) -> Iterator[tuple[str, list[str]]]:
        """Command of each process of a host, in the order of the plan, with the code of a release."""
        for process in plan(self._spec, self._site(host)):
            name = process.name if process.module else self._nats_name(host)
            if name in PLACES[host]:
                yield name, self._command(host, process, release)

    def _command(self, host: str, process: ProcessSpec, release: Release) -> list[str]:
        home = self.folder(host) / "home"
        home.mkdir(exist_ok=True)
        variables = {**process.environment, **dict(self._options.variables), **release.variables, "HOME": str(home)}
        given = ["env", *(f"{name}={value}" for name, value in variables.items())]
        if not process.module:
            return [*given, find_nats_server(), *process.arguments]
        known = {name: value for name, value in process.settings.items() if name not in release.unknown_settings}
        # Without site, which would add this checkout's folders to those of the release.
        return [*given, sys.executable, "-S", "-m", process.module, *replace(process, settings=known).arguments]

    @property
    def _spec(self) -> PlatformSpec:
        options: dict[str, object] = {"nats_replicas": len(NATS_NAMES), "drain_seconds": self._options.drain_seconds}
        return PlatformSpec(
            models=[ModelSource("headrace-demo", demo_model.CHECKPOINT)],
            replicas=3,
            gateways=2,
            schedulers=2,
            tokenizers=2,
            caches=2,
            service_options={**options, **dict(self._options.settings)},
            model_options={"thread_count": 1},
        )

    def _site(self, host: str) -> Site:
        nats = self._nats(host) if self._nats_name(host) else None
        folder = self.folder(host)
        return Site(
            processes={name: self._process_site(name) for names in PLACES.values() for name in names},
            http_address=f"0.0.0.0:{HTTP_PORT}",
            nats_url=",".join(f"nats://{name}:{DEFAULT_PORT}" for name in self._nats_names(host)),
            nats=nats,
            certificates={role: self._certificates(host) / role for role in ROLES},
            usage_folder=folder / "usage",
        )

    def _process_site(self, name: str) -> ProcessSite:
        kind = kind_of(name)
        if kind == NATS_NAME:
            return ProcessSite("")
        folder = self.folder(host_of(name))
        keeps = kind in ("gateway", "scheduler")
        return ProcessSite(
            listen=f"0.0.0.0:{PORTS[kind]}",
            advertise=f"{name}:{PORTS[kind]}",
            folder=folder / name if kind == "cache" else None,
            workers_file=folder / f"workers-of-{name}.json" if keeps else None,
        )

    def _nats_names(self, host: str) -> tuple[str, ...]:
        return (self._nats_name(host) or NATS_NAMES[0],) if self._options.one_nats else NATS_NAMES

    def _nats_name(self, host: str) -> str:
        return next((name for name in PLACES[host] if name in NATS_NAMES), "")

    def _nats(self, host: str) -> NatsSpec:
        """A server of a cluster, as the chart configures it."""
        name, certificate = self._nats_name(host), self._certificates(host) / NATS
        tls = {"cert_file": "tls.crt", "key_file": "tls.key", "ca_file": "ca.crt"}
        cluster: dict[str, Any] = {
            "name": CLUSTER,
            "port": ROUTE_PORT,
            "routes": [f"nats://{other}:{ROUTE_PORT}" for other in NATS_NAMES],
            "tls": {part: str(certificate / file) for part, file in tls.items()}
            | {"verify": True, "pinned_certs": [_fingerprint(certificate / "tls.crt")]},
        }
        own = {"server_name": name, "client_advertise": f"{name}:{DEFAULT_PORT}", "cluster": cluster}
        path = certificate / FILE_NAME
        path.write_text(json.dumps(json.loads(nats_conf(certificate)) | own))
        return NatsSpec(path, self.store(name), monitoring_port=MONITORING_PORT)

    def _certificates(self, host: str) -> Path:
        return self.folder(host) / "certificates"


def _fingerprint(path: Path) -> str:
    """Returns the hash of a certificate's key: no other role of the same authority is a server of the cluster."""
    key = x509.load_pem_x509_certificate(path.read_bytes()).public_key()
    written = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(written).hexdigest()
