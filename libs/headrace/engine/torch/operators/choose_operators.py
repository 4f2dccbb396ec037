"""Selection of the operators for a CPU."""

from headrace.engine.kernels.choice.candidates import choose_instructions
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.memory.host_cores import usable_core_count
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators
from headrace.engine.torch.operators.single_row_operators import SingleRowOperators
from headrace.engine.torch.operators.torch_operators import TorchOperators


def choose_encoder_operators(thread_count: int | None = None) -> Operators:
    """Chooses the operators of an encoder. Without kernels, encoders compute one input at a time, which is faster than
    one row at a time."""
    chosen = choose_operators(thread_count)
    return TorchOperators() if isinstance(chosen, SingleRowOperators) else chosen


def choose_operators(thread_count: int | None = None, *, exact: bool = True) -> KernelOperators | SingleRowOperators:
    """Chooses the operators of a decoder. `thread_count` is for the kernels. Unset: one thread per core. `exact` has
    them multiply quantized weights by inputs as they are, and not by inputs in 8 bits."""
    if choose_instructions() is None:
        return SingleRowOperators()
    return KernelOperators(shared_context(thread_count or usable_core_count()), exact=exact)
