"""Each device gets a backend whose parts go together: a CPU its kernels, a GPU what runs on it, and torch else."""

import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, without_kernels
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.gpu.choose_backend import choose_backend
from headrace.engine.gpu.operators.stored_linear import stored_linear
from headrace.engine.kernels.storage import Storage
from headrace.engine.step.cpu_sampler import CpuSampler
from headrace.engine.torch.attention.gathered_attention import GatheredAttention
from headrace.engine.torch.attention.kernel_attention import KernelPagedAttention
from headrace.engine.torch.attention.paged_attention import HeadShape, LayerAttention, PagedAttention
from headrace.engine.torch.attention.token_attention import TokenAttention
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.backends.torch_backend import torch_backend
from headrace.engine.torch.decoder.decoder_layer import PreNormLayer
from headrace.engine.torch.layers.expert_mlp import ExpertMlp
from headrace.engine.torch.layers.rms_norm import RmsNorm
from headrace.engine.torch.operators.kernel_operators import KernelOperators
from headrace.engine.torch.operators.single_row_operators import SingleRowOperators
from headrace.engine.torch.operators.torch_linear import TorchLinear
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.engine.torch.sampling.torch_sampler import TorchSampler
from headrace.errors.tree import ConfigError

CPU, ELSEWHERE = torch.device("cpu"), torch.device("meta")
"""The second stands for a device that is no CPU, and that Triton does not run on."""


@pytest.fixture
def model(tmp_path: Path) -> DecoderConfig:
    make_family(tmp_path, "llama", num_hidden_layers=1)
    return read_model_config(tmp_path)


def attention_of(backend: Backend, model: DecoderConfig) -> PagedAttention:
    """Builds attention over two blocks, for one layer."""
    angles = torch.ones(4, model.head_size // 2).numpy()
    heads = HeadShape(model.head_count, model.kv_head_count, model.head_size, model.head_size, 1.0, None, 1e-5)
    return backend.attention.build(heads, [LayerAttention(None, (angles, angles))], 2)


def test_a_cpu_computes_on_its_kernels(model: DecoderConfig) -> None:
    backend = choose_backend(engine_config(), model, CPU, "", 1)
    assert isinstance(backend.operators, KernelOperators)
    assert isinstance(backend.sampler, CpuSampler)
    assert isinstance(attention_of(backend, model), KernelPagedAttention)
    assert (backend.device, backend.dtype) == (CPU, torch.float32)


def test_a_cpu_without_kernels_computes_row_by_row(model: DecoderConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    without_kernels(monkeypatch)
    backend = choose_backend(engine_config(), model, CPU, "", 1)
    assert isinstance(backend.operators, SingleRowOperators)
    assert isinstance(backend.sampler, TorchSampler)
    assert isinstance(attention_of(backend, model), TokenAttention)


def test_a_device_that_triton_does_not_run_on_computes_through_torch(
    model: DecoderConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with caplog.at_level(logging.INFO):
        backend = choose_backend(engine_config(precision="bfloat16"), model, ELSEWHERE, "")
    assert backend.operators == TorchOperators(linear=stored_linear)
    assert isinstance(backend.sampler, TorchSampler)
    assert backend.attention.shapes[0].storage is Storage.BF16
    assert "attention gathers keys and values" in caplog.messages


def test_graphs_that_are_insisted_on_and_cannot_be_are_refused(model: DecoderConfig) -> None:
    backend = choose_backend(engine_config(cuda_graphs="on"), model, CPU, "", 1)
    attention, decoder = attention_of(backend, model), SimpleNamespace(layers=[])
    with pytest.raises(ConfigError, match="do not attend here: the device is no GPU; choose auto or off"):
        backend.graphs(decoder, attention, 64, None)  # type: ignore[arg-type]
    experts = ExpertMlp(Mock(), [], 2, Mock())
    decoder.layers = [PreNormLayer(Mock(), Mock(), Mock(), experts)]
    with pytest.raises(ConfigError, match="the host routes this model's experts"):
        backend.graphs(decoder, attention, 64, None)  # type: ignore[arg-type]
    usual = choose_backend(engine_config(), model, CPU, "", 1)
    assert usual.graphs(decoder, attention_of(usual, model), 64, None) is None  # type: ignore[arg-type]


def test_keys_and_values_are_kept_as_computed_or_refused(model: DecoderConfig) -> None:
    with pytest.raises(ConfigError, match=r"in float32, .* cannot run this model: of a reason; nor .*: .* no GPU"):
        choose_backend(engine_config(kv_precision="int8"), model, CPU, "of a reason")
    assert choose_backend(engine_config(kv_precision="float32"), model, CPU, "", 1).dtype == torch.float32


def test_another_kernel_takes_the_place_of_one_operation_alone() -> None:
    usual = TorchOperators()
    other = replace(usual, rms_norm=lambda weight, epsilon: RmsNorm(weight * 2, epsilon))
    inputs, weight = torch.randn(3, 8), torch.randn(8)
    assert torch.allclose(other.rms_norm(weight, 1e-5)(inputs), 2 * usual.rms_norm(weight, 1e-5)(inputs))
    assert isinstance(other.linear(torch.randn(4, 8)), TorchLinear)
    assert torch.equal(other.gate(inputs, "silu"), usual.gate(inputs, "silu"))


def test_torch_gathers_keys_and_values(model: DecoderConfig) -> None:
    backend = torch_backend(engine_config(), model, torch.float32, CPU)
    assert isinstance(attention_of(backend, model), GatheredAttention)
    with pytest.raises(ConfigError, match="block_size is 48: it must divide 128"):
        attention_of(torch_backend(engine_config(block_size=48), model, torch.float32, CPU), model)


@pytest.mark.process
def test_the_choice_is_made_without_importing_triton() -> None:
    """It may not be installed."""
    imports = "import sys, headrace.engine.gpu.choose_backend as _; print('triton' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", imports], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout == "False\n"
