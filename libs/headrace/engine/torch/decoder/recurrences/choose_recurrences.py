"""Selection of the recurrences of a model."""

from headrace.engine.torch.decoder.recurrences.kernel_recurrences import KernelRecurrences
from headrace.engine.torch.decoder.recurrences.recurrences import Recurrences
from headrace.engine.torch.decoder.recurrences.torch_recurrences import TorchRecurrences
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.operators import Operators


def choose_recurrences(operators: Operators) -> Recurrences:
    """Chooses the CPU kernels where the model's other operations run on them, else torch."""
    return KernelRecurrences(operators.context) if isinstance(operators, KernelOperators) else TorchRecurrences()
