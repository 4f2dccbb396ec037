"""Tests the kernels when it is imported, so that what is forked afterwards need not: the test takes half of a start."""

from headrace.engine.kernels.choice.candidates import candidates

candidates()


def prepare() -> None:
    """Does nothing more in a process that was forked."""
