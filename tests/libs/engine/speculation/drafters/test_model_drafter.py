"""The draft model reads each text once, shares what it read, and may be wrong about everything but the vocabulary."""

import json
from pathlib import Path

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, request
from tests.libs.engine.table_model import VOCAB_SIZE, TableRunner, make_table

from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.batching.sequence import Sequence, make_block_table
from headrace.engine.batching.step_plan import StepPlan
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.speculation.drafters.model_drafter import ModelDrafter
from headrace.engine.step.step_logits import StepLogits
from headrace.errors.tree import ConfigError
from headrace.kv.block_hash import hash_blocks

BLOCK = 4


class RecordingRunner(TableRunner):
    """Remembers what it was given to read."""

    def __init__(self) -> None:
        super().__init__(make_table(1))
        self.read: list[tuple[int, list[int]]] = []

    def run(self, plan: StepPlan) -> StepLogits:
        self.read += [(chunk.start, chunk.token_ids) for chunk in plan.chunks]
        return super().run(plan)


def make_drafter(max_step: int = 64, vocab_size: int = VOCAB_SIZE) -> tuple[ModelDrafter, RecordingRunner]:
    runner = RecordingRunner()
    return ModelDrafter(runner, vocab_size, max_len=100, block_size=BLOCK, max_step=max_step), runner


def make_sequence(tokens: list[int], table: list[int]) -> Sequence:
    sequence = Sequence(request("r", tokens, temperature=0, max_tokens=50), 0, 0, frozenset(), 100)
    sequence.block_table = make_block_table(table)
    sequence.block_hashes = hash_blocks(tuple(tokens), BLOCK, "")
    return sequence


def test_only_what_is_new_is_read() -> None:
    drafter, runner = make_drafter()
    sequence = make_sequence([1, 2, 3], [0, 1, 2])
    guesses = drafter.propose({sequence: 3})[sequence]
    assert len(guesses) == 3
    assert runner.read == [(0, [1, 2, 3]), (3, [guesses[0]]), (4, [guesses[1]])]
    runner.read.clear()
    other = (guesses[1] + 1) % VOCAB_SIZE
    sequence.token_ids += [guesses[0], other, 5]
    drafter.propose({sequence: 1})
    assert runner.read == [(4, [other, 5])]


def test_the_last_guess_is_read_when_all_were_right() -> None:
    drafter, runner = make_drafter()
    sequence = make_sequence([1, 2, 3], [0, 1, 2])
    guesses = drafter.propose({sequence: 2})[sequence]
    sequence.token_ids += [*guesses, 6]
    runner.read.clear()
    drafter.propose({sequence: 1})
    assert runner.read == [(4, [guesses[1], 6])]


def test_what_came_while_it_was_not_asked_is_read_at_once() -> None:
    drafter, runner = make_drafter()
    sequence = make_sequence([1, 2, 3], [0, 1, 2])
    drafter.propose({sequence: 2})
    sequence.token_ids += [5, 6, 7, 4, 4]
    runner.read.clear()
    drafter.propose({sequence: 1})
    assert runner.read == [(3, [5, 6, 7, 4, 4])]


def test_what_reading_takes_is_known_beforehand() -> None:
    drafter, _ = make_drafter()
    first, second = (make_sequence([token_id] * 40, list(range(12))) for token_id in (1, 2))
    assert drafter.seconds_to_begin(first) == drafter.step_seconds(1) == 0
    drafter.propose({first: 2})
    assert drafter.seconds_to_begin(first) == 0
    assert drafter.seconds_to_begin(second) > 0
    assert drafter.step_seconds(1) > 0


def test_what_was_measured_at_load_is_known_before_the_first_draft() -> None:
    runner, table = RecordingRunner(), {1: 0.5, 2: 0.75}
    drafter = ModelDrafter(runner, VOCAB_SIZE, 100, BLOCK, 64, step_seconds=table)
    assert drafter.step_seconds(2) == 0.75
    assert drafter.seconds_to_begin(make_sequence([1, 2], [0, 1])) == 0.25


def test_long_texts_are_read_over_several_steps() -> None:
    drafter, runner = make_drafter(max_step=4)
    sequence = make_sequence([1] * 10, [0, 1, 2, 3])
    assert drafter.propose({sequence: 2}) == {}
    assert drafter.propose({sequence: 2}) == {}
    assert len(drafter.propose({sequence: 2})[sequence]) == 2
    assert [(start, len(ids)) for start, ids in runner.read] == [(0, 4), (4, 4), (8, 2), (10, 1)]


def test_shared_blocks_are_not_read_again_unless_something_else_was_written_there() -> None:
    drafter, runner = make_drafter()
    first = make_sequence([1, 2, 3, 4, 5], [7, 8])
    drafter.propose({first: 1})
    first.token_ids.append(6)
    drafter.propose({first: 1})
    drafter.forget(first)
    runner.read.clear()
    drafter.propose({make_sequence([1, 2, 3, 4, 7], [7, 9]): 1})
    assert runner.read == [(4, [7])]
    drafter.propose({make_sequence([2, 2, 3, 4, 7], [7, 3]): 1})
    runner.read.clear()
    drafter.propose({make_sequence([1, 2, 3, 4, 7], [7, 9]): 1})
    assert runner.read[0] == (0, [1, 2, 3, 4, 7])


@pytest.mark.parametrize("vocab_size", [5, 12])
def test_guesses_stay_within_the_vocabulary_of_the_large_model(vocab_size: int) -> None:
    drafter, _ = make_drafter(vocab_size=vocab_size)
    for token_id in range(5):
        guesses = drafter.propose({make_sequence([token_id], [0, 1]): 4})
        assert all(0 <= guess < vocab_size for ids in guesses.values() for guess in ids)


def test_a_broken_draft_model_guesses_some_token() -> None:
    class BrokenRunner(RecordingRunner):
        def run(self, plan: StepPlan) -> StepLogits:
            logits = super().run(plan)
            return StepLogits(torch.full_like(logits.values, torch.nan), logits.sampling, ())

    drafter = ModelDrafter(BrokenRunner(), VOCAB_SIZE, 100, BLOCK, 64)
    for sampling in ({"temperature": 0}, {"temperature": 1.0, "top_p": 0.9}, {"temperature": 1.0}):
        sequence = Sequence(request("r", [1], max_tokens=9, **sampling), 0, 0, frozenset(), 100)
        sequence.block_table = make_block_table([0, 1])
        assert all(0 <= guess < VOCAB_SIZE for guess in drafter.propose({sequence: 3})[sequence])


def test_another_vocabulary_is_refused_at_load(tmp_path: Path) -> None:
    for file in DRAFT.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    one, two = list(vocabulary)[100:102]
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ConfigError, match="has another vocabulary: token 1"):
        load_text_engine(CHECKPOINT, engine_config(speculation="on", draft_folder=tmp_path))
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"tokenizer\.json is missing"):
        load_text_engine(CHECKPOINT, engine_config(speculation="on", draft_folder=tmp_path))


def test_nothing_is_guessed_after_a_token_that_the_draft_model_has_no_row_for() -> None:
    known = VOCAB_SIZE - 2
    drafter = ModelDrafter(RecordingRunner(), VOCAB_SIZE, 100, BLOCK, 64, draft_vocabulary_size=known)
    sequence = make_sequence([1, 2, known - 1], [0, 1, 2])
    assert drafter.room(sequence) > 0
    sequence.token_ids.append(known)
    assert drafter.room(sequence) == 0
    drafter.forget(sequence)
    assert drafter.room(make_sequence([known + 1], [0])) == 0
