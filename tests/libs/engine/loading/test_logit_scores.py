"""A causal model scores a pair by the log-odds of two tokens, and is refused where its head has none."""

import json
from pathlib import Path

import pytest
from tests.libs.engine.engine_running import engine_config, finish, request
from tests.libs.engine.tiny_models import make_family
from tests.libs.engine.tiny_rerankers import log_odds, make_reranker

from headrace.engine.checkpoints.families.model_kind import makes_embeddings, scores_pairs
from headrace.engine.loading.load_engine import load_engine
from headrace.errors import InvalidCheckpoint, Unsupported

INPUT = [5, 9, 400, 31, 7]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("has_modules", [True, False])
def test_the_score_is_that_of_transformers(has_modules: bool, tied: bool, tmp_path: Path) -> None:
    model = make_reranker(tmp_path, has_modules=has_modules, tie_word_embeddings=tied)
    assert makes_embeddings(tmp_path)
    assert scores_pairs(tmp_path)
    engine = load_engine(tmp_path, engine_config(block_count=16))
    assert (engine.spec.scores_pairs, engine.spec.embedding_size) == (True, 1)
    engine.add(request("0", tuple(INPUT)))
    (delta,) = finish(engine)["0"]
    assert delta.embedding is not None
    assert list(delta.embedding) == pytest.approx([log_odds(model, INPUT)], abs=1e-4)


@pytest.mark.parametrize(
    ("key", "reason"),
    [(["a"], "not two texts"), (["a", "no such token"], "no ids"), (["no such token", "a"], "has no token")],
)
def test_tokens_that_are_none_are_refused(key: list[str], reason: str, tmp_path: Path) -> None:
    make_reranker(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"classifier_from_token": key}))
    with pytest.raises(InvalidCheckpoint, match=reason):
        load_engine(tmp_path, engine_config())


def test_a_capped_head_is_refused(tmp_path: Path) -> None:
    make_reranker(tmp_path, has_modules=True)
    make_family(tmp_path, "gemma2", vocab_size=4096)
    with pytest.raises(Unsupported, match="a bias or a soft cap"):
        load_engine(tmp_path, engine_config())
