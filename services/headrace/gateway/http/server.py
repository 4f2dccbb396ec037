"""Runs the REST bridge on uvicorn, under the service's life cycle instead of uvicorn's own."""

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from headrace.domain.deadline import Deadline
from headrace.errors import AddressInUse, ConfigError
from headrace.gateway.access.gate import Gate
from headrace.gateway.config import GatewaySettings
from headrace.gateway.http.bodies.upload_budget import UploadBudget
from headrace.gateway.http.connection import HttpConnection
from headrace.gateway.http.renewed_tls import RenewedTls
from headrace.gateway.http.response_socket import ResponseSocket
from headrace.gateway.http.socket_connection import SocketConnection
from headrace.lifecycle import wait_at_most
from headrace.security.public_pair import PublicPair

STARTUP_TIMEOUT = 10.0
TICK_SECONDS = 1.0
"""Seconds between ticks: each writes the date that answers have."""
BACKLOG = 2048
OTHER_FILES = 256
"""Files that the gateway may need in addition to its connections."""

_log = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Begins to shut down."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Ticks once a second, not ten times as uvicorn's own does, and ends as soon as it is to."""
        while not await self.on_tick(0):
            await wait_at_most(self._ending, TICK_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the service."""
        yield


class HttpServer:
    """Listens as soon as it is created; serves from `start` to `stop`."""

    def __init__(self, app: ASGIApp, settings: GatewaySettings, gate: Gate, uploads: UploadBudget) -> None:
        """`uploads`: the budget of all bodies and messages that arrive."""
        inherited = settings.http_socket >= 0
        self._socket = _inherited(settings.http_socket) if inherited else _listen(settings.http_address)
        host, port = self._socket.getsockname()[:2]
        self.address = f"{host}:{port}"
        config = uvicorn.Config(
            ResponseSocket(app, settings, gate, uploads),
            loop="none",
            http=_connection_class(settings),
            ws=_socket_class(settings, uploads),
            ws_max_size=settings.max_body_bytes,
            # A few bytes may unpack to a message of the largest size, again and again.
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]
            backlog=BACKLOG,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        )
        try:
            pair = None if settings.tls_files is None else PublicPair(*settings.tls_files)
            config.load()
        except BaseException:
            self._socket.close()
            raise
        self._tls = None if pair is None else RenewedTls(config, pair)
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> "asyncio.Task[None]":
        """Starts serving, and returns the task that serves."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="http")
        deadline = Deadline.after(STARTUP_TIMEOUT)
        while not self._server.started and not self._task.done() and not deadline.expired:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.005)
        return self._task

    async def stop(self, deadline: Deadline) -> None:
        """Refuses new connections, lets running requests end until the deadline, then cuts them."""
        if self._task is not None and not self._task.done():
            self._server.end()
            done, _ = await asyncio.wait({self._task}, timeout=deadline.remaining)
            if not done:
                self._server.force_exit = True
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
                for server in getattr(self._server, "servers", []):
                    server.close()
        self._socket.close()


def _connection_class(settings: GatewaySettings) -> type[HttpConnection]:
    """Binds the settings to a connection class: uvicorn creates its connections itself and accepts only a class."""

    class Connection(HttpConnection):
        max_connections = _connection_bound(settings.max_connections)
        header_seconds = settings.header_seconds
        unread_seconds = settings.unread_seconds

    return Connection


def _socket_class(settings: GatewaySettings, budget: UploadBudget) -> type[SocketConnection]:
    class Connection(SocketConnection):
        body_seconds = settings.body_seconds
        uploads = budget

    return Connection


def _connection_bound(wanted: int) -> int:
    """Returns how many of the wanted connections the operating system lets one process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    bound = max(1, soft - OTHER_FILES)
    _log.warning(
        "fewer connections than the setting says: the operating system allows too few open files",
        extra={"max_connections": wanted, "bound": bound, "open_files": soft},
    )
    return bound


def _inherited(descriptor: int) -> socket.socket:
    """Returns a socket that was passed on. Raises ConfigError if there is none."""
    try:
        listening = socket.socket(fileno=descriptor)
        is_listening = listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ConfigError(f"file descriptor {descriptor} is no socket: {error}", param="http_socket") from None
    if not is_listening:
        raise ConfigError(f"the socket with file descriptor {descriptor} does not listen", param="http_socket")
    listening.setblocking(False)
    return listening


def _listen(address: str) -> socket.socket:
    """Returns a listening socket. Raises AddressInUse."""
    host, _, port = address.rpartition(":")
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):
        # Lets several gateway processes share the port, and the supervisor keep it reserved across restarts.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listening.bind((host.strip("[]"), int(port)))
    except (OSError, ValueError) as error:
        listening.close()
        raise AddressInUse(f"cannot listen on {address}: {error}") from None
    listening.setblocking(False)
    return listening
