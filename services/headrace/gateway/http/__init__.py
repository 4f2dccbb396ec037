"""HTTP: connections, bodies, limits, errors."""
