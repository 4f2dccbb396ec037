"""Runs a service whose wall clock lags behind: `python set_back_clock.py SECONDS headrace.worker FLAGS …`.

Only `time.time_ns` is misled. gRPC turns `time.time` into deadlines of the right clock: set back as well, every call
would end at once.
"""

import runpy
import sys
import time


def set_back(seconds: float) -> None:
    """Makes `time.time_ns` lag behind by so much."""
    right_ns = time.time_ns
    time.time_ns = lambda: right_ns() - round(seconds * 1e9)


if __name__ == "__main__":
    set_back(float(sys.argv[1]))
    del sys.argv[0:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
