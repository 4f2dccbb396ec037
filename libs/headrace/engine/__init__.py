"""The model engine: a library that knows no service. Each room imports only rooms above it in docs/architecture.md."""
