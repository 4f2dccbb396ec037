"""Computations on a CPU, which run again as they are."""

from headrace.engine.gpu.graphs.step_capture import Computation


class HostCapture:
    """Runs a computation as it is: a CPU launches nothing."""

    def capture(self, compute: Computation) -> Computation:
        return compute
