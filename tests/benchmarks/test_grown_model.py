"""A grown model says what the bundled one says."""

from pathlib import Path

import pytest
from tests.benchmarks.grown_head import grow_head
from tests.benchmarks.grown_model import GrownShape, grow
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.speculation.drafters.always_head import load_with_head

from headrace.demo_model import CHECKPOINT, DRAFT, DRAFT_HEAD
from headrace.engine.loading.load_text_engine import load_text_engine

PROMPT = tuple(range(5, 45))


def answer(folder: Path) -> list[int]:
    engine = load_text_engine(folder, engine_config(block_count=32))
    found = run(engine, request("r", PROMPT, max_tokens=40, temperature=0, ignore_eos=True))["r"]
    engine.close()
    return found


@pytest.mark.parametrize(
    ("source", "shape"),
    [
        (CHECKPOINT, GrownShape(1024, 704, 6, 10, 5, 64)),
        (DRAFT, GrownShape(512, 384, 3, 4, 2, 128)),
    ],
)
def test_the_tokens_are_those_of_the_source(source: Path, shape: GrownShape, tmp_path: Path) -> None:
    grow(source, tmp_path / "grown", shape)
    assert answer(tmp_path / "grown") == answer(source)


def test_a_grown_head_drafts_what_the_bundled_one_does(tmp_path: Path) -> None:
    shape = GrownShape(1024, 704, 6, 10, 5, 64)
    grow(CHECKPOINT, tmp_path / "grown", shape)
    grow_head(DRAFT_HEAD, tmp_path / "head", shape)
    drafted = []
    for folder, head in ((CHECKPOINT, DRAFT_HEAD), (tmp_path / "grown", tmp_path / "head")):
        engine, drafter = load_with_head(folder, head)
        run(engine, request("r", PROMPT, max_tokens=40, temperature=0, ignore_eos=True))
        drafted.append([seen.drafted for seen in drafter.seen])
    assert drafted[0] == drafted[1]


@pytest.mark.parametrize("shape", [GrownShape(768, 640, 5, 8, 4, 32), GrownShape(256, 640, 5, 8, 2, 32)])
def test_shapes_that_would_say_something_else_are_refused(shape: GrownShape, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must grow by"):
        grow(CHECKPOINT, tmp_path, shape)
