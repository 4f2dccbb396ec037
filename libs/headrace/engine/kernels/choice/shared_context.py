"""The kernel context shared by all models of a process: separate threads would only compete for the same cores."""

import functools

from headrace.engine.kernels.choice.candidates import choose_instructions
from headrace.engine.kernels.context import KernelContext


@functools.cache
def shared_context(thread_count: int) -> KernelContext:
    """Returns the context of this process. Raises RuntimeError if no kernels can run."""
    instructions = choose_instructions()
    if instructions is None:
        raise RuntimeError("no kernels can run here")
    return KernelContext(thread_count, instructions)
