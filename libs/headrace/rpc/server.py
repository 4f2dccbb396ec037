"""gRPC server with health, reflection, credentials and the boundary."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import OVERALL_HEALTH
from grpc_health.v1.health import aio as health_aio
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_reflection.v1alpha import reflection

from headrace.errors import AddressInUse
from headrace.rpc.boundary import Boundary, let_in
from headrace.rpc.checks.request_limits import RequestLimits
from headrace.rpc.credential_guard import CredentialGuard
from headrace.rpc.options import PUBLIC_SERVER_OPTIONS, SERVER_OPTIONS
from headrace.security.port_tls import PortTls
from headrace.security.role_rules import check_role

Bind: TypeAlias = Callable[[grpc.aio.Server], None]
"""Adds the servicers of a service to a gRPC server that has not started."""


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """TLS of a server's ports. None: plain text."""

    mutual: PortTls | None = None
    """TLS between services."""
    public: PortTls | None = None
    """TLS for clients from outside."""


UNSECURED = ServerSecurity()
LIVENESS, READINESS = "liveness", "readiness"
"""Names under which gRPC health says whether the process answers, and whether it serves, as gateways of Kubernetes ask
for them."""
ROUTABLE = "routable"
"""Name under which gRPC health says whether callers have found the service, which is when an older one may go."""


class Server:
    """Serves gRPC services on one address. Health says NOT_SERVING until `set_serving(True)`."""

    def __init__(
        self,
        bind: Bind,
        service_names: Sequence[str],
        credential: str = "",
        is_public: bool = False,
        security: ServerSecurity = UNSECURED,
        limits: RequestLimits | None = None,
    ) -> None:
        """`credential`: what callers have to show; empty lets all in. A public server lets all in anyway, and is
        patient with connections from far away. `security`: TLS of its ports; with mutual TLS, callers of an internal
        server are held to the rules of their roles. `limits`: of the requests of strangers."""
        guards = [CredentialGuard(credential)] if credential and not is_public else []
        self._port_tls = security.public if is_public else security.mutual
        self._further_tls = security.mutual
        check = check_role if security.mutual is not None and not is_public else let_in
        boundary = Boundary(check, limits)
        options = PUBLIC_SERVER_OPTIONS if is_public else SERVER_OPTIONS
        if limits is not None:
            options = list({**dict(options), "grpc.max_receive_message_length": limits.byte_count}.items())
        self._server = grpc.aio.server(interceptors=[*guards, boundary], options=options)
        self._health = health_aio.HealthServicer()
        self._names = [OVERALL_HEALTH, READINESS, *service_names]
        self._is_serving = False
        bind(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        exposed = [*service_names, "grpc.health.v1.Health", reflection.SERVICE_NAME]
        reflection.enable_server_reflection(exposed, self._server)

    async def start(self, address: str, further_address: str = "") -> str:
        """Listens, on another address too if there is one, and returns the first with its real port. Raises
        AddressInUse."""
        await self._health.set(LIVENESS, HealthCheckResponse.SERVING)
        await self.set_serving(False)
        port = self._listen(address, self._port_tls)
        if further_address:
            self._listen(further_address, self._further_tls)
        await self._server.start()
        return f"{address.rpartition(':')[0]}:{port}"

    def _listen(self, address: str, tls: PortTls | None) -> int:
        try:
            if tls is None:
                return self._server.add_insecure_port(address)
            return self._server.add_secure_port(address, tls)
        except RuntimeError:
            raise AddressInUse(f"cannot listen on {address}: the address is in use or not allowed") from None

    async def set_serving(self, serving: bool) -> None:
        status = HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING
        self._is_serving = serving
        for name in self._names:
            await self._health.set(name, status)
        if not serving:
            await self._health.set(ROUTABLE, status)

    async def set_routable(self) -> None:
        """Says from now on that callers have found the service, for as long as it serves."""
        if self._is_serving:
            await self._health.set(ROUTABLE, HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        """Refuses new calls, and gives the running ones `grace` seconds."""
        await self._server.stop(grace)
