"""Whole models from quantized files: the tokens are those of the weights that the file stands for."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_floats import FORMS, Form, round_to_floats
from torch import Tensor

from headrace.demo_model import CHECKPOINT
from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.engine.checkpoints.facts.scheme import read_scheme
from headrace.engine.checkpoints.formats.formats import read_quantized
from headrace.engine.checkpoints.safetensors_arrays import SafetensorsArrays
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import Delta, EngineRequest, SamplingParams
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import InvalidCheckpoint, Unsupported
from headrace.quantization.writer import awq_config, awq_tensors, gptq_config, gptq_tensors
from headrace.tokenizer.text.text_model import TextModel

PROMPT = tuple(TextModel("m", CHECKPOINT).encode("Continuous batching is", True))
GROUP = 64


def generate(folder: Path, precision: str = "auto", count: int = 24) -> list[int]:
    config = engine_config(precision=precision, block_count=64, max_running_count=4, exact=True)
    engine = load_text_engine(folder, config)
    engine.add(EngineRequest("r", PROMPT, SamplingParams(max_tokens=count, temperature=0, ignore_eos=True)))
    tokens: list[int] = []
    while engine.has_work():
        tokens += [token for delta in engine.step() for token in delta.token_ids]
    engine.close()
    return tokens


def projections(tensors: dict[str, Tensor]) -> list[str]:
    return [name.removesuffix(".weight") for name in tensors if name.endswith("_proj.weight")]


def copy_of(folder: Path, tensors: dict[str, Tensor], **config: Any) -> Path:
    shutil.copytree(CHECKPOINT, folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder


@pytest.fixture(scope="module")
def original() -> dict[str, Tensor]:
    return load_file(CHECKPOINT / "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "bits", "symmetric"), [("awq", 4, False), ("gptq", 4, True), ("gptq", 4, False), ("gptq", 8, True)]
)
def test_a_quantized_model_is_the_model_with_its_dequantized_weights(
    tmp_path: Path, original: dict[str, Tensor], method: str, bits: int, symmetric: bool
) -> None:
    quantized, dequantized = dict(original), {name: tensor.float() for name, tensor in original.items()}
    for name in projections(original):
        matrix = round_to_nearest.quantize(original[f"{name}.weight"], bits, GROUP, symmetric)
        del quantized[f"{name}.weight"]
        quantized |= awq_tensors(name, matrix) if method == "awq" else gptq_tensors(name, matrix)
        dequantized[f"{name}.weight"] = matrix.dequantize()
    config = awq_config(GROUP) if method == "awq" else gptq_config(bits, GROUP, symmetric)
    packed = copy_of(tmp_path / "packed", quantized, quantization_config=config)
    assert generate(packed) == generate(copy_of(tmp_path / "plain", dequantized))


@pytest.mark.parametrize("form", FORMS)
def test_a_model_of_floating_point_codes_is_the_model_with_their_numbers(
    tmp_path: Path, original: dict[str, Tensor], form: Form
) -> None:
    coded = copy_of(tmp_path / "coded", original)
    round_to_floats(coded, form)
    scheme, source = read_scheme(coded, json.loads((coded / "config.json").read_text())), SafetensorsArrays(coded)
    dequantized = {name: tensor.float() for name, tensor in original.items()}
    for name in projections(original):
        out_size, in_size = original[f"{name}.weight"].shape
        arrays = read_quantized(source, name, out_size, in_size, scheme)
        assert arrays is not None
        dequantized[f"{name}.weight"] = torch.from_numpy(arrays.dequantize())
    plain = copy_of(tmp_path / "plain", dequantized)
    assert generate(coded) == generate(plain)
    assert generate(coded, "int8") == generate(plain, "int8"), "they are rounded as plain numbers are"


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_rounding_while_loading_keeps_the_model_usable(precision: str) -> None:
    """The trained model is sure of what it says: int8 says the same, int4 nearly."""
    plain, rounded = generate(CHECKPOINT), generate(CHECKPOINT, precision)
    same = sum(ours == theirs for ours, theirs in zip(plain, rounded, strict=True))
    assert same == len(plain) if precision == "int8" else same >= 3


def test_what_the_weights_are_held_in_is_told() -> None:
    engine = load_text_engine(CHECKPOINT, engine_config(precision="int4", block_count=16))
    assert engine.spec.precision == "int4"
    engine.close()


def write_gguf(path: Path, original: dict[str, Tensor], kind: gguf.GGMLQuantizationType) -> Path:
    """The bundled model as llama.cpp's converter would write it."""
    config = json.loads((CHECKPOINT / "config.json").read_text())
    tokenizer = json.loads((CHECKPOINT / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    specials = {token["id"] for token in tokenizer["added_tokens"]}
    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([3 if index in specials else 1 for _, index in vocabulary])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(4)
    writer.add_add_bos_token(True)
    writer.add_chat_template(json.loads((CHECKPOINT / "tokenizer_config.json").read_text())["chat_template"])
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.o_proj": "attn_output"}
    names |= {f"self_attn.{x}_proj": f"attn_{x}" for x in "qkv"} | {
        f"mlp.{x}_proj": f"ffn_{x}" for x in ("gate", "up", "down")
    }
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    for name, tensor in original.items():
        values = tensor.float()
        if name in top:
            target = top[name]
        else:
            _, _, index, part = name.removesuffix(".weight").split(".", 3)
            target = f"blk.{index}.{names[part]}.weight"
            if names[part] in ("attn_q", "attn_k"):
                heads = config["num_attention_heads" if names[part] == "attn_q" else "num_key_value_heads"]
                values = values.reshape(heads, 2, -1, values.shape[1]).transpose(1, 2).reshape(values.shape)
        array = values.contiguous().numpy()
        if array.ndim == 1:
            writer.add_tensor(target, array)
        else:
            writer.add_tensor(target, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q5_0", "Q4_1", "Q4_0"])
def test_gguf_is_the_model_with_its_dequantized_weights(tmp_path: Path, original: dict[str, Tensor], kind: str) -> None:
    quantization = gguf.GGMLQuantizationType[kind]
    path = write_gguf(tmp_path / "model.gguf", original, quantization)
    dequantized = {
        name: torch.from_numpy(
            gguf.dequantize(gguf.quantize(tensor.float().numpy(), quantization), quantization).copy()
        )
        if tensor.ndim > 1
        else tensor.float()
        for name, tensor in original.items()
    }
    # llama.cpp's order of the rows of queries and keys does not mix values of different rows, so rows round alike.
    assert generate(path) == generate(copy_of(tmp_path / "plain", dequantized))


def test_the_tokenizer_of_a_gguf_file(tmp_path: Path, original: dict[str, Tensor]) -> None:
    path = write_gguf(tmp_path / "model.gguf", original, gguf.GGMLQuantizationType.Q8_0)
    ours, theirs = TextModel("gguf", path), TextModel("folder", CHECKPOINT)
    for text in ("What is TTFT?", "Ünïcödé 日本語 🙂", "a  b\n\tc", "<|im_start|>user"):
        assert ours.encode(text, True) == theirs.encode(text, True)
    assert ours.pieces == theirs.pieces
    hello = Conversation((Message("user", "Hello"),))
    assert ours.render(hello) == theirs.render(hello)
    assert ours.eos_token_ids == [4]


def answer(folder: Path, grammar: Grammar) -> str:
    """Returns the text that the model generates within a grammar."""
    engine = load_text_engine(folder, engine_config(block_count=64, max_running_count=4))
    engine.add(EngineRequest("r", PROMPT, SamplingParams(max_tokens=60, temperature=0, grammar=grammar)))
    deltas: list[Delta] = []
    while engine.has_work():
        deltas += engine.step()
    engine.close()
    return TextModel("m", CHECKPOINT).decode([token for delta in deltas for token in delta.token_ids], True)


def test_grammars_take_the_vocabulary_of_a_gguf_file(tmp_path: Path, original: dict[str, Tensor]) -> None:
    path = write_gguf(tmp_path / "model.gguf", original, gguf.GGMLQuantizationType.F32)
    grammar = Grammar(GrammarKind.REGEX, r"(é|[0-9]{2}-){1,4}(yes|no) <end>")
    said = answer(path, grammar)
    assert re.fullmatch(grammar.text, said)
    assert said == answer(CHECKPOINT, grammar)


@pytest.mark.slow
def test_broken_gguf_files_are_typed_errors(tmp_path: Path, original: dict[str, Tensor]) -> None:
    whole = write_gguf(tmp_path / "model.gguf", original, gguf.GGMLQuantizationType.Q8_0).read_bytes()
    generator = np.random.default_rng(0)
    broken = tmp_path / "broken.gguf"
    cases = [whole[:cut] for cut in (0, 3, 100, 5000, len(whole) // 2, len(whole) - 100)]
    for _ in range(60):
        mutated = bytearray(whole)
        for position in generator.integers(0, 60_000, 8):
            mutated[position] = int(generator.integers(0, 256))
        cases.append(bytes(mutated))
    for content in cases:
        broken.write_bytes(content)
        try:
            load_text_engine(broken, engine_config(block_count=8)).close()
        except (InvalidCheckpoint, Unsupported):
            continue
