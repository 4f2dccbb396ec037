"""Inputs to vectors through both engines that make them: right, the same in any batch, and typed errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_encoders import (
    POOLINGS,
    hidden_states,
    make_decoder,
    make_encoder,
    pooled,
    write_sentence_settings,
)
from tests.libs.engine.tiny_models import make_family, make_prompts
from transformers import AutoModel

from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import EngineRequest, FinishReason, SamplingParams
from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.cpu.weights.packed_weights import Table
from headrace.engine.engines.decoder_embedding_engine import DecoderEmbeddingEngine
from headrace.engine.engines.encoder_engine import EncoderEngine
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.storage import Storage
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.memory.aligned import address
from headrace.errors import InternalError, InvalidCheckpoint, InvalidRequest, Unsupported

PROMPTS = make_prompts((1, 2, 3, 5, 5, 5, 31, 64, 64, 100, 200))
Vector = tuple[float, ...]


def load(folder: Path, **settings: Any) -> Engine:
    defaults = {"max_step_token_count": 64, "thread_count": 1, "block_count": 64}
    return load_engine(folder, engine_config(**(defaults | settings)))


def add(engine: Engine, request_id: str, prompt: tuple[int, ...]) -> None:
    engine.add(EngineRequest(request_id, prompt, SamplingParams()))


def finish(engine: Engine) -> dict[str, Vector]:
    """The vector of each request: one delta each, which says that it is the last."""
    vectors: dict[str, Vector] = {}
    for _ in range(1000):
        if not engine.has_work():
            return vectors
        for delta in engine.step():
            assert delta.request_id not in vectors
            assert delta.finish_reason is FinishReason.STOP
            assert delta.token_ids == ()
            vectors[delta.request_id] = delta.embedding
    raise AssertionError("the engine does not come to an end")


def embed(engine: Engine, *prompts: tuple[int, ...]) -> list[Vector]:
    for index, prompt in enumerate(prompts):
        add(engine, str(index), prompt)
    vectors = finish(engine)
    return [vectors[str(index)] for index in range(len(prompts))]


def error(found: Vector, expected: torch.Tensor) -> float:
    return float((torch.tensor(found) - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("normalizes", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_an_encoder_pools_as_its_checkpoint_says(pooling: str, normalizes: bool, tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "bert")
    write_sentence_settings(tmp_path, pooling=pooling, normalizes=normalizes)
    engine = load(tmp_path)
    assert isinstance(engine, EncoderEngine)
    for prompt, found in zip(PROMPTS, embed(engine, *PROMPTS), strict=True):
        expected = pooled(hidden_states(model, prompt), pooling, normalizes=normalizes)
        assert error(found, expected) <= 1e-4, len(prompt)


def test_where_nothing_is_said_the_mean_is_taken_at_unit_length(tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "xlm_roberta")
    (found,) = embed(load(tmp_path), PROMPTS[-1])
    assert error(found, pooled(hidden_states(model, PROMPTS[-1]), "mean")) <= 1e-4
    assert torch.tensor(found).double().norm() == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_real_weights_equal_transformers(minilm: Path) -> None:
    """Embeddings of all-MiniLM-L6-v2, which reads 256 tokens although it has 512 positions."""
    engine = load(minilm)
    assert engine.spec.max_model_length == 256
    model = AutoModel.from_pretrained(minilm).eval()
    generator = torch.Generator().manual_seed(0)
    for length in (1, 2, 9, 60, 256):
        prompt = tuple(torch.randint(1000, engine.spec.vocabulary_size, (length,), generator=generator).tolist())
        (found,) = embed(engine, prompt)
        assert error(found, pooled(hidden_states(model, prompt), "mean")) <= 1e-5, length


@pytest.mark.parametrize("head_size", [24, 32])
@pytest.mark.parametrize("keeps_prefix", [False, True])
def test_a_decoder_gives_the_state_of_the_last_token(keeps_prefix: bool, head_size: int, tmp_path: Path) -> None:
    """Chunked: the longest prompt takes four steps. Heads of 24 run through torch."""
    model = make_decoder(tmp_path, keeps_prefix=keeps_prefix, head_dim=head_size)
    engine = load(tmp_path)
    assert isinstance(engine, DecoderEmbeddingEngine)
    for prompt, found in zip(PROMPTS, embed(engine, *PROMPTS), strict=True):
        assert error(found, pooled(hidden_states(model, prompt), "lasttoken")) <= 1e-4, len(prompt)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_batch_order_and_budget_do_not_change_a_bit(kind: str, tmp_path: Path) -> None:
    if kind == "encoder":
        make_encoder(tmp_path, "bert")
        write_sentence_settings(tmp_path)
    else:
        make_decoder(tmp_path)
    engine = load(tmp_path)
    alone = [embed(engine, prompt)[0] for prompt in PROMPTS]
    assert embed(engine, *PROMPTS) == alone
    assert embed(engine, *reversed(PROMPTS)) == alone[::-1]
    assert embed(load(tmp_path, max_step_token_count=2048), *PROMPTS) == alone
    assert embed(load(tmp_path, prefix_cache=False), *PROMPTS) == alone


def test_a_step_takes_as_many_inputs_as_fit_its_budget_and_longer_ones_alone(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    engine = load(tmp_path, max_step_token_count=64, max_running_count=4)
    before = engine.stats().step_count
    for index, prompt in enumerate(make_prompts((30, 34, 1, 200, 5, 5, 5, 5, 5))):
        add(engine, str(index), prompt)
    steps = []
    while engine.has_work():
        steps.append([delta.request_id for delta in engine.step()])
    assert steps == [["0", "1"], ["2"], ["3"], ["4", "5", "6", "7"], ["8"]]
    assert engine.stats().step_count - before == len(steps)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_cancelled_request_yields_nothing(kind: str, tmp_path: Path) -> None:
    if kind == "encoder":
        make_encoder(tmp_path, "bert")
    else:
        make_decoder(tmp_path)
    engine = load(tmp_path)
    add(engine, "gone", PROMPTS[0])
    add(engine, "stays", PROMPTS[1])
    engine.cancel("gone")
    engine.cancel("never was")
    assert set(finish(engine)) == {"stays"}
    assert engine.stats().used_block_count == 0


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ((), "the input is empty"),
        ((1,) * 41, "has 41 tokens, and this model reads 40 at most: .*truncate_prompt_tokens"),
        ((5, 4711), "token id 4711 is outside the model's vocabulary of 199"),
        ((-1,), "token id -1 is outside"),
    ],
)
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_what_cannot_be_embedded_is_refused(kind: str, prompt: tuple[int, ...], message: str, tmp_path: Path) -> None:
    if kind == "encoder":
        make_encoder(tmp_path, "bert")
        write_sentence_settings(tmp_path, max_len=40)
    else:
        make_decoder(tmp_path)
        write_sentence_settings(tmp_path, pooling="lasttoken", max_len=40)
    engine = load(tmp_path)
    assert engine.spec.max_model_length == 40
    assert len(embed(engine, (1,) * 40)[0]) == engine.spec.embedding_size == 64
    with pytest.raises(InvalidRequest, match=message) as caught:
        add(engine, "bad", prompt)
    assert caught.value.param == "input"
    assert not engine.has_work()


def words_of(engine: DecoderEmbeddingEngine) -> "np.ndarray[tuple[int, ...], np.dtype[Any]]":
    """Returns the table of embeddings in fp32, which may be written: [vocabulary, hidden]."""
    runner: Any = engine._runner
    if isinstance(runner, CpuRunner):
        weights = runner._decoder._weights
        assert weights.embedding.storage is Storage.F32
        weights.embedding = Table(np.array(weights.embedding.numbers), Storage.F32)
        runner._decoder._model.embedding = address(weights.embedding.numbers)
        return weights.embedding.numbers
    with torch.inference_mode():
        table: np.ndarray[tuple[int, ...], np.dtype[Any]] = runner._model._embedding.weight.numpy()
    return table


def test_an_embedding_that_is_not_finite_fails_its_request_alone(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    engine = load(tmp_path)
    assert isinstance(engine, EncoderEngine)
    encoder: Any = engine._encoder
    table = np.array(encoder._weights.words.numbers)
    table[150] = np.nan
    encoder._model.words = address(table)
    add(engine, "good", (1, 2))
    add(engine, "broken", (150,))
    with pytest.raises(InternalError, match="broken is not finite") as caught:
        engine.step()
    assert caught.value.details["request_id"] == "broken"
    assert set(finish(engine)) == {"good"}


@pytest.mark.parametrize("kernels", ["auto", "torch"])
def test_what_went_wrong_in_a_decoder_leaves_nothing_in_its_cache(kernels: str, tmp_path: Path) -> None:
    """The broken input is longer than a block, and the good ones after it get its blocks."""
    make_decoder(tmp_path)
    good = make_prompts((90, 40), seed=7)
    engine = load(tmp_path, block_count=12, kernels=kernels)
    assert isinstance(engine, DecoderEmbeddingEngine)
    alone = [embed(engine, prompt)[0] for prompt in good]
    table = words_of(engine)
    kept = table[150].copy()
    table[150] = np.nan
    for _ in range(2):
        add(engine, "broken", (3, 150, *range(60)))
        with pytest.raises(InternalError, match="broken is not finite"):
            finish(engine)
        engine.check_invariants()
    table[150] = kept
    assert not engine.has_work()
    assert engine.stats().used_block_count == 0
    assert embed(engine, *good) == alone
    assert embed(engine, (3, 150, *range(60))) == embed(load(tmp_path), (3, 150, *range(60)))


def test_a_fingerprint_tells_weights_poolings_and_precisions_apart(tmp_path: Path) -> None:
    prints: list[str] = []
    for seed, pooling, precision in ((0, "mean", "auto"), (1, "mean", "auto"), (0, "cls", "auto"), (0, "mean", "int8")):
        folder = tmp_path / str(len(prints))
        make_encoder(folder, "bert", seed=seed)
        write_sentence_settings(folder, pooling=pooling)
        prints.append(load(folder, precision=precision).spec.fingerprint)
        assert load(folder, precision=precision).spec.fingerprint == prints[-1]
    assert len(set(prints)) == len(prints)


def test_rounded_weights_stay_close(tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    (exact,) = embed(load(tmp_path), PROMPTS[-1])
    (rounded,) = embed(load(tmp_path, precision="int8"), PROMPTS[-1])
    assert rounded != exact
    assert torch.dot(torch.tensor(rounded), torch.tensor(exact)) > 0.999


def test_a_decoder_without_such_files_makes_text(tmp_path: Path) -> None:
    make_family(tmp_path, "qwen3")
    engine = load(tmp_path)
    assert isinstance(engine, TextEngine)
    assert engine.spec.embedding_size is None


@pytest.mark.parametrize(
    ("pooling", "kind", "message"),
    [
        ("mean", "Normalize", "pooling mean of a decoder is not supported: only lasttoken"),
        ("lasttoken", "WordWeights", "module WordWeights of modules.json is not supported there: only Pooling, Dense"),
    ],
)
def test_other_steps_are_refused_by_name(pooling: str, kind: str, message: str, tmp_path: Path) -> None:
    make_decoder(tmp_path)
    write_sentence_settings(tmp_path, pooling=pooling, kind=kind)
    with pytest.raises(Unsupported, match=message):
        load(tmp_path)


@pytest.mark.parametrize("path", ["../1_Pooling", "/1_Pooling", ".."])
def test_a_module_outside_the_folder_is_not_read(path: str, tmp_path: Path) -> None:
    make_encoder(tmp_path, "bert")
    write_sentence_settings(tmp_path)
    file = tmp_path / "modules.json"
    file.write_text(file.read_text().replace('"1_Pooling"', f'"{path}"'))
    with pytest.raises(InvalidCheckpoint, match="only folders in the same folder are read"):
        load(tmp_path)


def test_the_one_word_of_newer_files_is_understood(tmp_path: Path) -> None:
    model = make_encoder(tmp_path, "bert")
    write_sentence_settings(tmp_path)
    (tmp_path / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')
    (found,) = embed(load(tmp_path), PROMPTS[-1])
    assert error(found, pooled(hidden_states(model, PROMPTS[-1]), "cls")) <= 1e-4
