"""Certificate and key by which clients know the platform, read again once they have been replaced."""

import logging
import ssl
from pathlib import Path

from headrace.errors import ConfigError
from headrace.security.file_versions import file_versions

_log = logging.getLogger(__name__)


class PublicPair:
    """Two PEM files. A server asks for `renewed` before each connection."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises ConfigError for files that are missing, are no PEM, or do not fit."""
        self.certificate = certificate
        self.key = key
        self._known = self._refused = file_versions((certificate, key))
        self.check()

    def check(self) -> None:
        """Raises ConfigError for files with which no server could be started."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            message = f"the certificate {self.certificate} or its key cannot be used: {error}"
            raise ConfigError(message, param="tls_certificate") from None

    def renewed(self) -> bool:
        """Whether both files were replaced since the last call that said so, and fit. Costs two calls of the system
        while they were not."""
        now = file_versions((self.certificate, self.key))
        if now in (self._known, self._refused):
            return False
        try:
            self.check()
        except ConfigError as error:
            # Between the writes of key and certificate they do not fit; they are read again once they have changed.
            _log.warning("the renewed certificate is not used yet", extra={"error": error.message})
            self._refused = now
            return False
        self._known = now
        _log.info("the certificate was renewed", extra={"file": str(self.certificate)})
        return True
