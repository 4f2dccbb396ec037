"""Memory of the machine: what is free, aligned arrays, mapped files."""
