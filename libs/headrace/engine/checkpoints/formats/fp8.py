"""FP8 with a scale for each block, as DeepSeek-V3 and Qwen3 have it (DeepSeek-AI, DeepSeek-V3 Technical Report, 2024).

weight E4M3 [out, in], weight_scale_inv float [out / rows, in / columns], both rounded up; W = number * scale. Such
checkpoints expect activations to be quantized at run time; here they stay in the engine's precision.
"""

import numpy as np

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats.e4m3 import take_e4m3
from headrace.engine.checkpoints.formats.float_arrays import float_arrays
from headrace.engine.checkpoints.weights.quantized_arrays import QuantizedArrays
from headrace.engine.checkpoints.weights.tensor_source import TensorSource, take_finite


def read(source: TensorSource, name: str, out_size: int, in_size: int, scheme: QuantizationScheme) -> QuantizedArrays:
    """Reads module `name`. Raises InvalidCheckpoint naming the invalid tensor."""
    group_size = scheme.group_size or in_size
    codes = take_e4m3(source, f"{name}.weight", (out_size, in_size))
    blocks = -(-out_size // scheme.block_rows), -(-in_size // group_size)
    scales = take_finite(source, f"{name}.weight_scale_inv", blocks)
    return float_arrays(name, codes, np.repeat(scales, scheme.block_rows, axis=0)[:out_size], 8, group_size)
