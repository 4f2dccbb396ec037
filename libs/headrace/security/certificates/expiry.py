"""Expiry of this process's certificate: an error when it is over, a warning before, and a metric always."""

import datetime
import logging

from prometheus_client import Gauge

from headrace.errors import ConfigError
from headrace.security.certificates.role_identity import RoleIdentity

WARNING = datetime.timedelta(days=14)
EXPIRY = Gauge(
    "headrace_certificate_expiry_timestamp_seconds",
    "End of the certificate by which this process is known in its platform, in seconds since 1970",
)

_log = logging.getLogger(__name__)


def note_expiry(identity: RoleIdentity) -> None:
    """Sets the metric, and warns within 14 days of the end. Raises ConfigError for a certificate that has expired."""
    EXPIRY.set(identity.expires.timestamp())
    check_expiry(identity)
    if identity.remaining() <= WARNING:
        _log.warning("the certificate expires soon", extra={"folder": str(identity.folder), "expires": _end(identity)})


def check_expiry(identity: RoleIdentity) -> None:
    """Raises ConfigError for a certificate that has expired."""
    if identity.remaining() <= datetime.timedelta(0):
        message = (
            f"the certificate in {identity.folder} expired at {_end(identity)}: renew it with headrace certs renew"
        )
        raise ConfigError(message, param="certificates")


def _end(identity: RoleIdentity) -> str:
    return identity.expires.isoformat(timespec="minutes")
