"""Tests the kernels when it is imported, so that what is forked afterwards need not: the test takes half of a start."""

from tests.libs.engine.parallel.forked_leaders import allow_leaders

from headrace.engine.kernels.choice.candidates import candidates

candidates()


def prepare() -> None:
    """Lets a process that was forked lead, too."""
    allow_leaders()
