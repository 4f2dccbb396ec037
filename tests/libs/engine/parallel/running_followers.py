"""Followers among the children of this process."""

import psutil

FOLLOWER = "headrace.engine.parallel.follower"
"""Module that a follower runs."""


def running_followers() -> list[int]:
    """Returns the process ids of followers that run. One that has ended and was not waited for is none."""
    return [child.pid for child in psutil.Process().children() if _is_follower(child)]


def _is_follower(child: psutil.Process) -> bool:
    try:
        return FOLLOWER in child.cmdline()
    except psutil.NoSuchProcess:
        return False
