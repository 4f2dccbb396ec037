"""Encoders on the fused kernels: what transformers computes, the bits of torch's operations, and no batch in them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_encoders import NAMES, hidden_states, make_encoder
from tests.libs.engine.tiny_models import make_prompts
from tests.libs.engine.tiny_quantized import Method, quantize_projections

from headrace.engine.checkpoints.encoder_settings import read_encoder_config
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.cpu.encoder.cpu_encoder import CpuEncoder
from headrace.engine.cpu.encoder.packed_encoder_reader import read_packed_encoder
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.storage import Storage
from headrace.engine.step.encoder import Encoder
from headrace.engine.torch.encoder.load_torch_encoder import load_torch_encoder
from headrace.engine.torch.operators.choose_operators import choose_encoder_operators
from headrace.errors import Unsupported

pytestmark = needs_kernels
MAX_ERROR = 1e-4
PROMPTS = make_prompts((1, 2, 3, 16, 17, 64, 129, 300, 512))
EVEN: dict[str, Any] = {"intermediate_size": 96}
"""Sizes that codes can hold."""
MODULES = ("query", "key", "value", "dense")
Hidden = list[NDArray[np.float32]]


def load(
    folder: Path, bits: int | None = None, thread_count: int = 2, instructions: Instructions | None = None
) -> CpuEncoder:
    config = read_encoder_config(folder)
    weights = read_packed_encoder(folder, config, WeightRounding(bits))
    return CpuEncoder(config, weights, KernelContext(thread_count, instructions))


def through_torch(folder: Path, **settings: Any) -> Encoder:
    config = engine_config(kernels="torch", **settings)
    operators, device = choose_encoder_operators(config.thread_count), torch.device("cpu")
    return load_torch_encoder(folder, read_encoder_config(folder), config, operators, device).encoder


def encode(encoder: Encoder, *prompts: tuple[int, ...]) -> Hidden:
    return [np.array(hidden) for hidden in encoder(prompts)]


def are_same(found: Hidden, expected: Hidden) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def check_against_transformers(encoder: Encoder, model: Any, *prompts: tuple[int, ...]) -> None:
    for prompt, found in zip(prompts, encode(encoder, *prompts), strict=True):
        expected = hidden_states(model, prompt)
        error = (torch.from_numpy(found) - expected).abs().max() / expected.abs().max()
        assert error <= MAX_ERROR, len(prompt)


@pytest.mark.parametrize("with_head", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_hidden_states_equal_transformers(name: str, with_head: bool, tmp_path: Path) -> None:
    model = make_encoder(tmp_path, name, with_head=with_head)
    check_against_transformers(load(tmp_path), model, *PROMPTS)


@pytest.mark.parametrize("precision", ["auto", "int8", "int4"])
@pytest.mark.parametrize("name", NAMES)
def test_hidden_states_have_the_bits_of_torchs_operations(name: str, precision: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, name)
    bits = {"auto": None, "int8": 8, "int4": 4}[precision]
    assert are_same(
        encode(load(tmp_path, bits), *PROMPTS), encode(through_torch(tmp_path, precision=precision), *PROMPTS)
    )


@pytest.mark.parametrize("method", ["awq", "gptq", "int8", "compressed-tensors"])
def test_quantized_checkpoints_have_the_bits_of_torchs_operations(method: Method, tmp_path: Path) -> None:
    """GPTQ's inputs are in an order of their own, in which the residual must not be left."""
    make_encoder(tmp_path, "bert", **EVEN)
    quantize_projections(tmp_path, method, tuple(f"{name}.weight" for name in MODULES))
    found = encode(load(tmp_path), *PROMPTS)
    assert are_same(found, encode(through_torch(tmp_path), *PROMPTS))
    assert load(tmp_path)._weights.layers[0].up.is_coded


@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("name", ["bert", "mpnet", "modernbert"])
def test_batch_threads_and_instruction_set_change_no_bit(name: str, bits: int | None, tmp_path: Path) -> None:
    """The longest input of BERT has two segments of attention, which threads share when it is alone. As few layers as
    there are kinds, because portable code takes forty times as long as the others."""
    make_encoder(tmp_path, name, num_hidden_layers=2, **EVEN)
    longest = read_encoder_config(tmp_path).max_model_length
    prompts = make_prompts((*range(1, 19), 31, 32, 33, 63, 64, 65, longest))
    fastest = load(tmp_path, bits, 1, available()[-1])
    alone = [encode(fastest, prompt)[0] for prompt in prompts]
    for instructions, thread_count in [*((each, 3) for each in available()), (available()[-1], 1)]:
        encoder = load(tmp_path, bits, thread_count, instructions)
        where = (instructions.name, thread_count)
        assert are_same(encode(encoder, *prompts), alone), where
        assert are_same(encode(encoder, *reversed(prompts)), alone[::-1]), where
        beside = [encode(encoder, prompt[::-1], prompt, (1,))[1] for prompt in prompts[-8:-1]]
        assert are_same(beside, alone[-8:-1]), where


def test_a_padding_token_in_the_input_has_the_position_that_transformers_gives_it(tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "roberta")
    check_against_transformers(load(tmp_path), model, (7, 1, 8, 1, 1, 9))


def test_the_names_of_the_first_checkpoints_are_known(tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "bert")
    path = tmp_path / "model.safetensors"
    renamed = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    tensors = load_file(path)
    for name in list(tensors):
        for new, old in renamed.items():
            if new in name:
                tensors[name.replace(new, old)] = tensors.pop(name)
    save_file(tensors, path)
    check_against_transformers(load(tmp_path), model, PROMPTS[4])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gte", {"type_vocab_size": 0, "rope_parameters": {"rope_type": "default", "rope_theta": 300.0}}),
        ("modernbert", {"attention_bias": True, "mlp_bias": True, "norm_bias": True}),
        ("modernbert", {"layer_types": ["sliding_attention"] * 3, "local_attention": 10}),
        ("modernbert", {"global_attn_every_n_layers": 2, "local_rope_theta": 500.0, "global_rope_theta": 77.0}),
    ],
)
def test_facts_of_config_json_are_followed(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    model = make_encoder(tmp_path, name, **settings)
    check_against_transformers(load(tmp_path), model, *PROMPTS)
    assert are_same(encode(load(tmp_path), *PROMPTS), encode(through_torch(tmp_path), *PROMPTS))


OWN_KEYS = {
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "max_position_embeddings": "n_positions",
    "layer_norm_eps": "layer_norm_epsilon",
}
"""Keys of Nomic BERT's own code, by those of transformers."""


def test_nomic_bert_is_read_in_the_form_of_its_own_code(tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "nomic_bert", rope_parameters={"rope_type": "default", "rope_theta": 77.0})
    path = tmp_path / "config.json"
    kept = {name: value for name, value in json.loads(path.read_text()).items() if name != "rope_parameters"}
    own = {OWN_KEYS.get(name, name): value for name, value in kept.items()}
    path.write_text(json.dumps(own | {"rotary_emb_base": 77, "n_positions": 8192, "activation_function": "swiglu"}))
    check_against_transformers(load(tmp_path), model, *PROMPTS)
    assert read_encoder_config(tmp_path).max_model_length == 2048
    path.write_text(json.dumps(own | {"prenorm": True}))
    with pytest.raises(Unsupported, match="prenorm True is not supported in NomicBert: only False"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("gte", {"rope_scaling": {"type": "ntk", "factor": 8.0}}, "rotary scaling is not supported in GteModel"),
        ("modernbert", {"rope_scaling": {"type": "linear"}}, "rotary scaling is not supported in ModernBertModel"),
        ("jina_embeddings_v3", {"lora_adaptations": ["retrieval.query"]}, "adapters for tasks are not supported"),
    ],
)
def test_what_would_change_results_is_refused(name: str, change: dict[str, Any], message: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, name)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(Unsupported, match=message):
        load(tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_checkpoints_in_16_bits_stay_so_and_lose_nothing(dtype: torch.dtype, tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert").to(dtype).save_pretrained(tmp_path)
    encoder = load(tmp_path)
    storage = Storage.BF16 if dtype is torch.bfloat16 else Storage.F16
    assert {encoder._weights.words.storage, encoder._weights.layers[0].qkv.storage} == {storage}
    assert are_same(encode(encoder, *PROMPTS), encode(through_torch(tmp_path), *PROMPTS))


@pytest.mark.parametrize("prompt", [(199,), (-1,), (1,) * 515, ()])
def test_what_the_model_does_not_take_is_refused_and_the_next_call_is_right(
    prompt: tuple[int, ...], tmp_path: Path
) -> None:
    make_encoder(tmp_path, "bert")
    encoder = load(tmp_path)
    expected = encode(encoder, PROMPTS[5])
    with pytest.raises(IndexError, match="the kernels refuse a call"):
        encoder([PROMPTS[1], prompt])
    assert are_same(encode(encoder, PROMPTS[5]), expected)


def test_memory_is_counted(tmp_path: Path) -> None:
    make_encoder(tmp_path, "mpnet", **EVEN)
    weights, config = load(tmp_path)._weights, read_encoder_config(tmp_path)
    parameters, padding = weights.parameter_count, config.head_count * (2 * config.max_model_length + 15)
    bias_table = config.bucket_count * config.head_count
    assert weights.byte_count == 4 * (parameters - bias_table + padding)
