"""The C++ kernels for CPUs (`src/`) and their binding. Independent of models and of torch."""
