"""Quantizing whole checkpoints, from a folder with plain weights to a folder that the engine serves."""

import json
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config, run
from tests.libs.engine.engine_running import request as engine_request
from tests.libs.engine.tiny_models import VOCAB_SIZE, make_family, make_prompts
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import ConfigError, InvalidCheckpoint, Unsupported
from headrace.evaluation.quality import Quality, measure
from headrace.evaluation.sequence_model import SequenceModel
from headrace.evaluation.text import calibration_text, evaluation_text
from headrace.evaluation.token_windows import cut_windows
from headrace.quantization import awq_layer, calibration
from headrace.quantization.checkpoint_quantizer import (
    QuantizationSummary,
    quantize_checkpoint,
)
from headrace.quantization.quantization_settings import QuantizationSettings

pytestmark = pytest.mark.slow
LENGTH = 256


def quantize(source: Path, target: Path, text: str = "", **settings: Any) -> QuantizationSummary:
    return quantize_checkpoint(
        source, target, QuantizationSettings(**settings), text or calibration_text(), lambda _work, _share: None
    )


@cache
def held_text() -> list[tuple[int, ...]]:
    """Token ids of a held-out text, not the text of the calibration."""
    return cut_windows(evaluation_text(), CHECKPOINT, LENGTH, 6)


class Reference:
    """The model that was quantized. Its logits are kept for all that are compared with it."""

    def __init__(self) -> None:
        self.logits = cache(SequenceModel.load(CHECKPOINT, LENGTH, "auto").logits)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference()


def quality_of(folder: Path, reference: Reference) -> Quality:
    return measure(SequenceModel.load(folder, LENGTH, "auto"), held_text(), reference)


@pytest.fixture(scope="module")
def gptq_int4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized") / "int4"
    quantize(CHECKPOINT, folder)
    return folder


@pytest.fixture(scope="module")
def plain(reference: Reference) -> Quality:
    return measure(reference, held_text())


@pytest.fixture(scope="module")
def awq_int4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized") / "awq"
    quantize(CHECKPOINT, folder, method="awq")
    return folder


@pytest.fixture(scope="module")
def rounded(tmp_path_factory: pytest.TempPathFactory, reference: Reference) -> Quality:
    folder = tmp_path_factory.mktemp("quantized") / "rounded"
    quantize(CHECKPOINT, folder, method="rtn")
    return quality_of(folder, reference)


@pytest.mark.parametrize(("method", "kl_share"), [("gptq", 0.75), ("awq", 0.95)])
def test_int4_is_within_two_percent_and_better_than_rounding(
    request: pytest.FixtureRequest,
    rounded: Quality,
    plain: Quality,
    reference: Reference,
    method: str,
    kl_share: float,
) -> None:
    solved = quality_of(request.getfixturevalue(f"{method}_int4"), reference)
    assert abs(solved.perplexity / plain.perplexity - 1) < 0.02
    assert solved.perplexity < rounded.perplexity
    assert solved.kl_divergence is not None
    assert rounded.kl_divergence is not None
    assert solved.kl_divergence < kl_share * rounded.kl_divergence


INT8: dict[str, Any] = {"bits": 8, "sequence_count": 2}


@pytest.fixture(scope="module")
def gptq_int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized") / "int8"
    quantize(CHECKPOINT, folder, **INT8)
    return folder


@pytest.fixture(scope="module")
def rtn_int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized") / "int8"
    quantize(CHECKPOINT, folder, method="rtn", **INT8)
    return folder


@pytest.mark.parametrize("method", ["gptq", "rtn"])
def test_int8_is_within_one_percent(
    request: pytest.FixtureRequest, plain: Quality, reference: Reference, method: str
) -> None:
    quality = quality_of(request.getfixturevalue(f"{method}_int8"), reference)
    assert abs(quality.perplexity / plain.perplexity - 1) < 0.01
    assert quality.top1_agreement is not None
    assert quality.top1_agreement > 0.99


def test_what_is_written_is_a_whole_gptq_checkpoint(gptq_int4: Path) -> None:
    tensors, original = load_file(gptq_int4 / "model.safetensors"), load_file(CHECKPOINT / "model.safetensors")
    projections = {name.removesuffix(".weight") for name in original if name.endswith("_proj.weight")}
    assert {name.removesuffix(".qweight") for name in tensors if name.endswith(".qweight")} == projections
    for name in original:
        if name.removesuffix(".weight") not in projections:
            assert torch.equal(tensors[name], original[name])
    config = json.loads((gptq_int4 / "config.json").read_text())
    scheme = config.pop("quantization_config")
    assert (scheme["quant_method"], scheme["bits"], scheme["group_size"]) == ("gptq", 4, 128)
    assert config == json.loads((CHECKPOINT / "config.json").read_text())
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (gptq_int4 / name).read_bytes() == (CHECKPOINT / name).read_bytes()
    assert {stat.S_IMODE(path.stat().st_mode) for path in gptq_int4.iterdir()} == {0o644}


def test_the_engine_serves_it(gptq_int4: Path) -> None:
    prompt = held_text()[0][:40]
    expected = int(SequenceModel.load(gptq_int4, LENGTH, "auto").logits((*prompt, 0))[-1].argmax())
    engine = load_text_engine(gptq_int4, engine_config(block_count=16, max_running_count=2))
    assert engine.spec.precision == "int4 (gptq)"
    assert run(engine, engine_request("r", prompt, temperature=0, max_tokens=1, ignore_eos=True)) == {"r": [expected]}
    engine.close()


def test_layers_calibrated_part_by_part_give_the_same_file(
    gptq_int8: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MOMENT_BYTES", 1)
    quantize(CHECKPOINT, tmp_path / "parts", **INT8)
    parts, whole = (folder / "model.safetensors" for folder in (tmp_path / "parts", gptq_int8))
    assert parts.read_bytes() == whole.read_bytes()


def test_moments_are_those_of_what_transformers_feeds_its_projections(tmp_path: Path) -> None:
    for family in ("qwen2", "phi3", "gemma2"):
        oracle = make_family(tmp_path / family, family)
        sequences = make_prompts((40, 33))
        seen: dict[str, torch.Tensor] = {}

        def hook(name: str, seen: dict[str, torch.Tensor] = seen) -> object:
            def add(_module: object, inputs: tuple[torch.Tensor, ...]) -> None:
                rows = inputs[0].flatten(0, -2).double()
                seen[name] = seen.get(name, 0) + rows.T @ rows

            return add

        for name, module in oracle.named_modules():
            if name.endswith("_proj"):
                module.register_forward_pre_hook(hook(name))
        model = SequenceModel.load(tmp_path / family, 48, "auto")
        modules = {name: shape for name, shape in model.record.modules.items() if name.endswith("_proj")}
        with torch.inference_mode():
            for sequence in sequences:
                oracle(torch.tensor([sequence]))
            ((observer, names),) = calibration.calibrate(model, modules, sequences, lambda _share: None)
        assert set(names) == set(seen)
        for name in names:
            moments = observer.moments_of(name, modules[name][1])
            assert moments.row_count == 73
            torch.testing.assert_close(moments.total, seen[name], rtol=1e-3, atol=1e-3)


def test_what_is_written_as_awq_is_a_whole_checkpoint(awq_int4: Path) -> None:
    tensors, original = load_file(awq_int4 / "model.safetensors"), load_file(CHECKPOINT / "model.safetensors")
    for name in original:
        module = name.removesuffix(".weight")
        if module.endswith("_proj"):
            assert {f"{module}.{part}" for part in ("qweight", "qzeros", "scales")} <= set(tensors)
            assert name not in tensors
        else:
            assert tensors[name].dtype == original[name].dtype
            assert module.endswith("layernorm") or torch.equal(tensors[name], original[name])
    norms = [name for name in original if "layernorm" in name]
    assert sum(not torch.equal(tensors[name], original[name]) for name in norms) > len(norms) / 2
    scheme = json.loads((awq_int4 / "config.json").read_text())["quantization_config"]
    assert scheme["modules_to_not_convert"] == ["lm_head"]
    assert (scheme["quant_method"], scheme["bits"], scheme["group_size"], scheme["version"], scheme["zero_point"]) == (
        "awq",
        4,
        128,
        "gemm",
        True,
    )


def make_source(folder: Path, family: str, **settings: Any) -> tuple[tuple[int, ...], str]:
    """A tiny random model with a tokenizer, and a sequence with the text that it comes from."""
    make_family(folder, family, intermediate_size=96, **settings)
    tokenizer = Tokenizer(WordLevel({f"t{index}": index for index in range(VOCAB_SIZE)}, unk_token="t0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (sequence,) = make_prompts((60,))
    return sequence, " ".join(f"t{token}" for token in sequence)


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "phi3", "gemma3"])
def test_other_families(tmp_path: Path, family: str) -> None:
    """Experts too, though not their routers."""
    source, target = tmp_path / "plain", tmp_path / "int8"
    sequence, text = make_source(source, family)
    quantize(source, target, text, bits=8, group_size=8, sequence_length=30)
    expected = SequenceModel.load(source, 64, "auto").logits(sequence)
    found = SequenceModel.load(target, 64, "auto").logits(sequence)
    assert not torch.equal(found, expected)
    assert (found - expected).norm() < 0.1 * expected.norm()
    assert not any(".gate.q" in name or "lm_head.q" in name for name in load_file(target / "model.safetensors"))


FOLDED = [
    "qwen2",
    "qwen3_untied_bias",
    "mistral_full",
    "mixtral",
    "qwen3_moe_sparse",
    "phi3",
    "gemma2",
    "gemma3",
]


@pytest.mark.parametrize("family", FOLDED)
def test_awq_scales_change_nothing_until_weights_are_rounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """Rounding is left out here, and the checkpoint is a plain one with other weights."""
    sequence, text = make_source(tmp_path / "plain", family)
    monkeypatch.setattr(awq_layer, "limit", lambda weight, *_: weight)
    monkeypatch.setattr(round_to_nearest, "quantize", only_when_searching(round_to_nearest.quantize))
    monkeypatch.setattr(awq_layer, "awq_tensors", lambda name, weight: {f"{name}.weight": weight.contiguous()})
    quantize(tmp_path / "plain", tmp_path / "folded", text, method="awq", group_size=8, sequence_length=30)
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("plain", "folded"))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    for part in ("input_layernorm", "o_proj", "down_proj" if family != "mixtral" else "w2"):
        assert any(part in name for name in changed), part
    expected = SequenceModel.load(tmp_path / "plain", 64, "auto").logits(sequence)
    found = SequenceModel.load(tmp_path / "folded", 64, "auto").logits(sequence)
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


def only_when_searching(quantize_matrix: Callable[..., QuantizedMatrix]) -> Callable[..., object]:
    """Rounds for the search, and hands out what should be stored as it is."""

    def maybe(weight: torch.Tensor, *settings: object, **named: Any) -> object:
        caller = sys._getframe(1).f_globals["__name__"]
        return weight if caller == awq_layer.__name__ else quantize_matrix(weight, *settings, **named)

    return maybe


def test_what_stands_in_the_way_is_named_and_nothing_is_written(tmp_path: Path, gptq_int4: Path) -> None:
    target = tmp_path / "target"
    with pytest.raises(Unsupported, match="quantized already"):
        quantize(gptq_int4, target)
    with pytest.raises(ConfigError, match="q_proj has 256 inputs, which groups of 96"):
        quantize(CHECKPOINT, target, group_size=96)
    with pytest.raises(ConfigError, match="AWQ always has 4 bits"):
        quantize(CHECKPOINT, target, method="awq", bits=8)
    with pytest.raises(ConfigError, match="multiple of 8"):
        quantize(CHECKPOINT, target, group_size=4)
    with pytest.raises(InvalidCheckpoint, match=r"config\.json"):
        quantize(tmp_path / "none", target)
    with pytest.raises(ConfigError, match="too short"):
        quantize_checkpoint(CHECKPOINT, target, QuantizationSettings(), "", lambda _work, _share: None)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"architectures": ["ZorkForCausalLM"]}))
    with pytest.raises(Unsupported, match="ZorkForCausalLM"):
        quantize(other, target)
    assert not target.exists()
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        quantize(CHECKPOINT, other)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other"]


@pytest.mark.parametrize("method", ["gptq", "awq", "rtn"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(tmp_path: Path, method: str, value: float) -> None:
    _, text = make_source(tmp_path / "plain", "qwen2")
    name = "model.layers.1.mlp.up_proj.weight"
    tensors = load_file(tmp_path / "plain" / "model.safetensors")
    tensors[name][3, 5] = value
    save_file(tensors, tmp_path / "plain" / "model.safetensors")
    with pytest.raises(InvalidCheckpoint, match=f"{name} holds values that are not finite"):
        quantize(tmp_path / "plain", tmp_path / "target", text, method=method, group_size=8, sequence_length=30)
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_models_that_compute_no_numbers_are_refused_by_name(tmp_path: Path, method: str) -> None:
    _, text = make_source(tmp_path / "plain", "qwen2")
    tensors = load_file(tmp_path / "plain" / "model.safetensors")
    tensors["model.layers.1.input_layernorm.weight"][3] = float("nan")
    save_file(tensors, tmp_path / "plain" / "model.safetensors")
    with pytest.raises(InvalidCheckpoint, match=r"input of model\.layers\.1\.self_attn\.q_proj is not finite"):
        quantize(tmp_path / "plain", tmp_path / "target", text, method=method, group_size=8, sequence_length=30)
