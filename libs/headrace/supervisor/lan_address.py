"""Addresses at which a platform is reached: from this machine, and from others."""

import ipaddress
import socket

_FAR = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses for documentation (RFC 5737, RFC 3849): a UDP socket that is connected to one sends nothing."""


def joined(host: str, port: int) -> str:
    """Returns host and port as one text, as in URLs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def family_of(host: str) -> socket.AddressFamily:
    """Returns the address family of a host."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def is_loopback_address(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than localhost counts as reachable from others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def near_host(host: str) -> str:
    """Returns the address at which this machine itself reaches whatever listens on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def lan_host(host: str) -> str:
    """Returns the address at which other machines reach whatever listens on `host`: where that is every address, the
    one by which this machine reaches the network, or else its name."""
    if near_host(host) == host:
        return host
    family = family_of(host)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_FAR[family], 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
