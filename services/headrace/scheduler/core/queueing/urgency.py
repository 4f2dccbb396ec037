"""The classes of requests, most urgent first, and what each is promised."""

import enum


class Urgency(enum.IntEnum):
    """Urgency of a request. A smaller number goes first."""

    RESUMED = 0
    """The request had a place and lost it: a client is reading it already, whatever its class was."""
    REALTIME = 1
    """The client waits in real time, such as a voice agent."""
    INTERACTIVE = 2
    """A user is reading along."""
    DEFAULT = 3
    """The request names no class."""
    BATCH = 4
    """No client is waiting."""


FIRST_TOKEN_SECONDS = {Urgency.REALTIME: 0.1, Urgency.INTERACTIVE: 2.0}
"""Time to first token that a class is promised unless the request asks for another."""
