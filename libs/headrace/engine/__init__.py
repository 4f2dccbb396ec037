"""The model engine: a library that knows no service. Each room imports only rooms above it in docs/architecture.md."""

import os
import platform

if platform.machine() == "x86_64":
    # numpy's OpenBLAS starts threads that spin at first, and nothing here is multiplied with it. On Arm, torch may have
    # its own OpenBLAS, whose threads are wanted.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
