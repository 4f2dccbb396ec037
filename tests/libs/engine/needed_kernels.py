"""Mark of tests that need the fused kernels."""

import pytest

from headrace.engine.kernels.library import load_kernels

NO_KERNELS = "no C++ compiler when Headrace was installed; to run it: install g++, then make clean test"
needs_kernels = pytest.mark.skipif(load_kernels() is None, reason=NO_KERNELS)
