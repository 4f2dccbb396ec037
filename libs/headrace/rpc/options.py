"""Options of channels and servers. Both sides agree on keepalive, or gRPC ends long silent streams with
ENHANCE_YOUR_CALM."""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_SHARED: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]

# Between services, a connection that leads nowhere, or to a process that hangs, ends within some 2.5 s: gRPC pings at
# most once a second. The wait for any ping is bounded too: a keepalive ping waits for one that is under way.
_QUICK: list[tuple[str, int]] = [
    ("grpc.keepalive_time_ms", 500),
    ("grpc.keepalive_timeout_ms", 1_300),
    ("grpc.http2.ping_timeout_ms", 1_300),
]

# Clients from outside may be far away.
_PATIENT: list[tuple[str, int]] = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
]

_ALLOWING: list[tuple[str, int]] = [
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
]

CHANNEL_OPTIONS: list[tuple[str, int]] = [
    *_SHARED,
    *_QUICK,
    # A service that starts, or starts again where it was, is met within a tenth of a second of its listening.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 100),
    # Two channels of one process to one address must not share a connection: a frozen one would stall the other.
    ("grpc.use_local_subchannel_pool", 1),
    # Services reach each other directly, whatever proxy the environment names.
    ("grpc.enable_http_proxy", 0),
]

PUBLIC_CHANNEL_OPTIONS: list[tuple[str, int]] = [
    *_SHARED,
    *_PATIENT,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
SERVER_OPTIONS = [*_SHARED, *_QUICK, *_ALLOWING]
PUBLIC_SERVER_OPTIONS = [*_SHARED, *_PATIENT, *_ALLOWING]
