"""The port on which a process shows its own metrics to Prometheus."""

import contextlib
from collections.abc import Iterator

from prometheus_client import start_http_server

from headrace.errors import AddressInUse


@contextlib.contextmanager
def shown_metrics(port: int) -> Iterator[None]:
    """Shows the metrics of this process on `port` of all addresses for as long as the context is open; 0 shows none.
    Raises AddressInUse."""
    if not port:
        yield
        return
    try:
        server, thread = start_http_server(port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AddressInUse(
            f"cannot show metrics on port {port}: {reason}. Set metrics_port to a free port, or to 0 for none"
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
