"""Our reading is bit-equal to that of the packages that made the formats. Skipped where they are not installed.

    pip install --no-deps autoawq==0.2.9 auto-gptq==0.7.1

Both are unmaintained and break current releases of what they depend on, so single files of theirs are loaded, pure
torch code, without importing the packages.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.formats import awq, gptq
from headrace.engine.checkpoints.formats.word_packing import pack

SEEDS = range(10)


class Tensors(dict[str, Tensor]):
    def array(self, name: str) -> NDArray[Any]:
        tensor = self[name]
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def load_file(package: str, relative: str, pinned: str) -> ModuleType:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed; to run it: .venv/bin/pip install --no-deps {pinned}, then make test")
    path = Path(found.submodule_search_locations[0]) / relative
    spec = importlib.util.spec_from_file_location(f"oracle_{package}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_words(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randint(-(2**31), 2**31 - 1, shape, generator=generator, dtype=torch.int64).to(torch.int32)


@pytest.mark.parametrize(("out_size", "in_size", "group"), [(64, 256, 128), (128, 512, 64), (8, 128, 128)])
def test_awq_is_what_autoawq_reads(out_size: int, in_size: int, group: int) -> None:
    oracle: Any = load_file("awq", "utils/packing_utils.py", "autoawq==0.2.9")
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        words = random_words(generator, in_size, out_size // 8)
        zeros = random_words(generator, in_size // group, out_size // 8)
        scales = (torch.rand(in_size // group, out_size, generator=generator) * 0.1).half()
        expected = oracle.dequantize_gemm(words, zeros, scales, 4, group)
        source = Tensors({"m.qweight": words, "m.qzeros": zeros, "m.scales": scales})
        matrix = awq.read(source, "m", out_size, in_size, QuantizationScheme("awq", 4, group, symmetric=False))
        assert torch.equal(torch.from_numpy(matrix.dequantize()).T.half(), expected)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize(("out_size", "in_size", "group"), [(64, 256, 128), (96, 192, 64), (64, 128, -1)])
def test_gptq_is_what_autogptq_reads(bits: int, out_size: int, in_size: int, group: int) -> None:
    oracle: Any = load_file("auto_gptq", "nn_modules/qlinear/qlinear_cuda_old.py", "auto-gptq==0.7.1")
    size = in_size if group == -1 else group
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        module = oracle.QuantLinear(bits, group, in_size, out_size, False, use_cuda_fp16=False)
        module.autogptq_cuda_available = False
        module.qweight.copy_(random_words(generator, *module.qweight.shape))
        # The oracle does not wrap zero points of 3 bits around; real files hold none that would.
        zeros = torch.randint(0, (1 << bits) - 1, (in_size // size, out_size), generator=generator)
        module.qzeros.copy_(pack(zeros.to(torch.uint8), bits))
        module.scales.copy_((torch.rand(module.scales.shape, generator=generator) * 0.1).half())
        expected = module(torch.eye(in_size).half()).T
        source = Tensors({"m.qweight": module.qweight, "m.qzeros": module.qzeros, "m.scales": module.scales})
        scheme = QuantizationScheme("gptq", bits, None if group == -1 else group, symmetric=False, zero_offset=1)
        matrix = gptq.read(source, "m", out_size, in_size, scheme)
        assert torch.equal(torch.from_numpy(matrix.dequantize()).half(), expected)
