"""The C++ kernels for CPUs (`src/`) and their binding. Knows no model and no torch."""
