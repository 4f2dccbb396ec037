"""One file per service: the Protocol that callers depend on, and its gRPC implementation."""
