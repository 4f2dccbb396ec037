"""Login of a process at NATS by its certificate."""

import ssl
from typing import Any

from headrace.bus.bus import Store
from headrace.security.certificates.role import NATS, name_of
from headrace.security.certificates.role_identity import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, RoleIdentity
from headrace.security.nats_permissions import inbox_prefix, makes


class NatsLogin:
    """Options of a connection that begins with TLS, and shows the certificate that is in the folder then."""

    def __init__(self, identity: RoleIdentity) -> None:
        self._identity = identity
        self._context = ssl.create_default_context(cafile=str(identity.folder / AUTHORITY_FILE))
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.reload()

    @property
    def options(self) -> dict[str, Any]:
        """Options of `nats.connect`."""
        return {
            "tls": self._context,
            "tls_hostname": name_of(NATS),
            # Without it, the client would speak plain text to a server that does not ask for TLS.
            "tls_handshake_first": True,
            "inbox_prefix": inbox_prefix(self._identity.role),
        }

    @property
    def tls(self) -> dict[str, Any]:
        """Options of `asyncio.open_connection`."""
        return {"ssl": self._context, "server_hostname": name_of(NATS)}

    def may_make(self, store: Store) -> bool:
        """Whether the role may make a bucket that is not there yet."""
        return makes(self._identity.role, store)

    def reload(self) -> None:
        """Reads the certificate and key again, for the next connection. Raises OSError."""
        folder = self._identity.folder
        self._context.load_cert_chain(folder / CERTIFICATE_FILE, folder / KEY_FILE)
