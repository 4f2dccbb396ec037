"""Encoders with a classifier: the scores that transformers computes, in any batch."""

from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_encoders import NAMES, make_scorer, scores
from tokenizers import Tokenizer

from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.loading.load_engine import load_engine
from headrace.errors import Unsupported

PAIRS = [
    ("w5", "w6"),
    ("w1 w2 w3", "w9 w8 w7 w6 w5 w4"),
    ("w10 " * 40, "w11 " * 60),
    ("w3 w3", "w12 w13 " * 20),
    ("w3 w3", "[SEP] w12"),
]


def load(folder: Path, **settings: str) -> Engine:
    return load_engine(folder, engine_config(thread_count=1, block_count=64, **settings))


def score(engine: Engine, folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for index, pair in enumerate(pairs):
        engine.add(EngineRequest(str(index), tuple(tokenizer.encode(*pair).ids), SamplingParams()))
    found: dict[str, float] = {}
    while engine.has_work():
        found |= {delta.request_id: delta.embedding[0] for delta in engine.step()}
    return [found[str(index)] for index in range(len(pairs))]


@pytest.mark.parametrize("name", NAMES)
def test_scores_equal_transformers(name: str, tmp_path: Path) -> None:
    model = make_scorer(tmp_path, name)
    engine = load(tmp_path)
    assert (engine.spec.embedding_size, engine.spec.scores_pairs) == (1, True)
    expected = scores(model, tmp_path, PAIRS)
    assert score(engine, tmp_path, PAIRS) == pytest.approx(expected, abs=1e-4)
    assert max(expected) - min(expected) > 0.01


@pytest.mark.parametrize("settings", [{"classifier_pooling": "mean"}, {"classifier_bias": True, "norm_bias": True}])
def test_a_classifier_is_as_config_json_says(settings: dict[str, Any], tmp_path: Path) -> None:
    model = make_scorer(tmp_path, "modernbert", **settings)
    assert score(load(tmp_path), tmp_path, PAIRS) == pytest.approx(scores(model, tmp_path, PAIRS), abs=1e-4)


def test_the_second_text_has_a_segment_of_its_own(tmp_path: Path) -> None:
    """Without it, the first pair would be scored as a single text of these tokens."""
    model = make_scorer(tmp_path, "bert")
    found = score(load(tmp_path), tmp_path, PAIRS[:1])
    model.bert.embeddings.token_type_embeddings.weight.data[1] = model.bert.embeddings.token_type_embeddings.weight[0]
    assert abs(found[0] - scores(model, tmp_path, PAIRS[:1])[0]) > 1e-3


@pytest.mark.parametrize("name", ["bert", "xlm_roberta"])
def test_a_score_does_not_depend_on_the_batch(name: str, tmp_path: Path) -> None:
    make_scorer(tmp_path, name)
    engine = load(tmp_path)
    alone = [score(engine, tmp_path, [pair])[0] for pair in PAIRS]
    assert score(engine, tmp_path, PAIRS) == alone
    assert score(engine, tmp_path, PAIRS[::-1]) == alone[::-1]
    assert score(load(tmp_path, kernels="torch"), tmp_path, PAIRS) == alone


def test_several_labels_are_refused(tmp_path: Path) -> None:
    make_scorer(tmp_path, "bert", label_count=3)
    with pytest.raises(Unsupported, match="BertForSequenceClassification with 3 labels is not supported"):
        load(tmp_path)
