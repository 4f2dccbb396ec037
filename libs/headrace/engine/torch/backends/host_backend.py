"""The backend of CPUs, which is batch-invariant: on the kernels, or without them one row at a time."""

import torch

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import choose_head_bits
from headrace.engine.checkpoints.packing.weight_forms import WeightForms
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.step.cpu_sampler import CpuSampler
from headrace.engine.torch.backends.attention_plan import plan_by_token, plan_on_kernels
from headrace.engine.torch.backends.backend import Backend, without_graphs
from headrace.engine.torch.backends.layered_plan import plan_layers
from headrace.engine.torch.operators.choose_operators import choose_operators
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.sampling.torch_sampler import TorchSampler


def host_backend(
    config: EngineConfig,
    model: DecoderConfig,
    dtype: torch.dtype,
    device: torch.device,
    thread_count: int | None = None,
) -> Backend:
    """Returns the backend of a CPU. `thread_count` is for the kernels. Unset: one thread per core."""
    operators = choose_operators(thread_count, exact=config.exact)
    if isinstance(operators, KernelOperators):
        context = operators.context
        attention = plan_layers(model, lambda part: plan_on_kernels(config, part, dtype, context))
        forms = WeightForms(choose_head_bits(config, model), keeps_blocks=config.precision == "auto")
        return Backend(device, dtype, operators, attention, CpuSampler(context), without_graphs, forms)
    attention = plan_layers(model, lambda part: plan_by_token(config, part, dtype, device))
    return Backend(device, dtype, operators, attention, TorchSampler(), without_graphs)
