"""Asks the service of this container how it is; exits 0 when it serves.

    python health.py [routable]

`routable` asks whether its callers have found it. The service is named by SERVICE, its port by its own setting
HEADRACE_<SERVICE>_LISTEN_ADDRESS.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TIMEOUT = 2.0


def check(environ: Mapping[str, str], name: str = "") -> str:
    """Finds the fault of the service in this container: a sentence, or nothing where it is healthy. `name`: of what
    gRPC health is asked about."""
    variable = f"HEADRACE_{environ.get('SERVICE', '').upper()}_LISTEN_ADDRESS"
    port = environ.get(variable, "").rpartition(":")[2]
    if not port:
        return f"{variable} does not say where the service listens"
    with open_channel(f"127.0.0.1:{port}", environ) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT
            )
        except grpc.RpcError as error:
            return f"no answer on port {port}: {error.code().name}"
    serving = answer.status == health_pb2.HealthCheckResponse.SERVING
    return "" if serving else health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def open_channel(address: str, environ: Mapping[str, str]) -> grpc.Channel:
    """Opens a channel as the callers of the service do: clients call the gateway, the others show a certificate of the
    platform, where it has some."""
    # A proxy of the environment is for the way out, not for this container.
    options: list[tuple[str, int | str]] = [("grpc.enable_http_proxy", 0)]
    service = environ["SERVICE"]
    prefix = f"HEADRACE_{service.upper()}_"
    if service == "gateway":
        chain = environ.get(f"{prefix}TLS_CERTIFICATE", "")
        return open_public_channel(address, Path(chain), options) if chain else grpc.insecure_channel(address, options)
    folder = environ.get(f"{prefix}CERTIFICATES", "")
    if not folder:
        return grpc.insecure_channel(address, options=options)
    authority, key, certificate = (Path(folder, name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt"))
    options.append(("grpc.ssl_target_name_override", f"{service}.headrace.internal"))
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authority, key, certificate), options=options)


def open_public_channel(address: str, chain: Path, options: list[tuple[str, int | str]]) -> grpc.Channel:
    """Trusts the certificate for clients as it is: its names are not those of this container."""
    from headrace.security.certificates.role_identity import first_name

    certificate = chain.read_bytes()
    named = [*options, ("grpc.ssl_target_name_override", first_name(certificate))]
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(certificate), options=named)


if __name__ == "__main__":
    sys.exit(check(os.environ, *sys.argv[1:]) or 0)
