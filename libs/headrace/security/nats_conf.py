"""Configuration of a NATS server that knows its clients by their certificates."""

import json
from pathlib import PurePath

from headrace.security.certificates.role import CLIENTS, ROLES, name_of
from headrace.security.certificates.role_identity import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE
from headrace.security.nats_permissions import permissions_of

FILE_NAME = "nats.conf"
REMEMBERED_CLIENTS = 100
"""Closed connections that the server remembers, by default 10,000 of 1.6 KB each. A local platform asks over a new one
several times a second whether the server answers."""


def nats_conf(folder: PurePath) -> str:
    """Returns the configuration, with TLS by the certificate in a folder and one user for each role. A relative folder
    is relative to the one in which the server starts."""
    users = [
        {
            "user": name_of(role),
            "permissions": {
                "publish": {"allow": list(permissions.publish)},
                "subscribe": {"allow": list(permissions.subscribe)},
            },
        }
        for role in ROLES
        if role in CLIENTS
        for permissions in [permissions_of(role)]
    ]
    tls = {
        "cert_file": str(folder / CERTIFICATE_FILE),
        "key_file": str(folder / KEY_FILE),
        "ca_file": str(folder / AUTHORITY_FILE),
        # Users are the names in their certificates.
        "verify_and_map": True,
        "timeout": 5,
        "min_version": "1.3",
        # Nothing is said in plain text, so that no man in the middle can talk a client out of encryption.
        "handshake_first": True,
    }
    # NATS reads JSON too.
    server = {"tls": tls, "authorization": {"users": users}, "max_closed_clients": REMEMBERED_CLIENTS}
    return json.dumps(server, indent=2) + "\n"
