"""Age of this process."""

import os
import sys
import time
from pathlib import Path

_BIRTH = 19
"""Field of /proc/PID/stat after the name of the program: ticks from the boot to the start."""


def process_age() -> float:
    """Returns the seconds since this process was started: imports are a part of a start."""
    if sys.platform != "linux":
        # Comes with what runs a platform; other commands work without it.
        import psutil

        return max(0.0, time.time() - psutil.Process().create_time())
    # psutil adds the time of the boot, which Linux gives in whole seconds.
    ticks = int(Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[_BIRTH])
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
