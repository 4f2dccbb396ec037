"""This machine as a site: a port for each process, files below the state folder, and what clients call."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ConfigError
from headrace.launch.platform_spec import ModelSource, PlatformSpec
from headrace.supervisor.local_site import LocalSite
from headrace.supervisor.options import PlatformOptions
from headrace.supervisor.state import StateFolder

SPEC = PlatformSpec([ModelSource("a", Path("/x"))], gateways=2)


@contextlib.contextmanager
def local_site(folder: Path, **options: Any) -> Iterator[LocalSite]:
    with StateFolder(folder) as state:
        site = LocalSite(PlatformOptions(SPEC, **({"http_port": 0, "grpc_port": 0} | options)), state)
        try:
            yield site
        finally:
            site.close()


def test_each_process_has_a_port_and_gateways_share_one_more(tmp_path: Path) -> None:
    with local_site(tmp_path) as local:
        processes = dict(local.describe().processes)
        gateways = [processes.pop(name) for name in ("gateway", "gateway-1")]
        assert {gateway.listen for gateway in gateways} == {local.grpc_address}
        probed = [site.probed for site in (*gateways, *processes.values())]
        assert len(set(probed)) == len(probed)


def test_clients_wait_at_a_socket_that_the_gateways_inherit(tmp_path: Path) -> None:
    with local_site(tmp_path) as local:
        site = local.describe()
        with socket.socket(fileno=site.http_socket) as inherited:
            host, port = inherited.getsockname()
            assert (f"{host}:{port}", local.http_url) == (site.http_address, f"http://{site.http_address}")
            socket.create_connection((host, port), timeout=5).close()
            inherited.detach()
        local.refuse_clients()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, port), timeout=5)


def test_what_is_kept_lies_below_the_state_folder(tmp_path: Path) -> None:
    with local_site(tmp_path) as local:
        site = local.describe()
        assert (site.usage_folder, site.files_folder) == (tmp_path / "usage", tmp_path / "files")
        assert site.of("cache").folder == tmp_path / "cache"
        kept = {name: process.workers_file for name, process in site.processes.items() if process.workers_file}
        assert kept == {name: tmp_path / "workers" / f"{name}.json" for name in ("gateway", "gateway-1", "scheduler")}


def test_nats_is_its_own_unless_one_runs(tmp_path: Path) -> None:
    with local_site(tmp_path) as local:
        assert local.describe().nats is not None
    with local_site(tmp_path, nats_url="nats://t@elsewhere:1") as local:
        assert (local.describe().nats, local.describe().nats_url) == (None, "nats://t@elsewhere:1")


def test_a_port_that_is_taken_leaves_none_reserved(tmp_path: Path) -> None:
    with local_site(tmp_path / "first") as first:
        port = int(first.grpc_address.rpartition(":")[2])
        with pytest.raises(ConfigError, match=f"port {port} is in use"), local_site(tmp_path / "b", grpc_port=port):
            pass
