"""Recurrences move states by their rule, with the same bits in any chunks and batch, with any threads and on every
instruction set, and copy them at the tokens where they are asked to."""

import numpy as np
import pytest
from tests.libs.engine.kernels.moved_states import CUT, LENGTHS, WHOLE, Moved, Piece, Recurring
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available

pytestmark = needs_kernels

SHAPES = [
    Recurring(corrects, *sizes)
    for corrects in (True, False)
    for sizes in ((6, 2, 24, 40), (2, 2, 128, 128), (4, 1, 7, 5), (1, 1, 64, 96))
]
each_shape = pytest.mark.parametrize(
    "texts", SHAPES, ids=lambda each: f"{'corrects' if each.corrects else 'adds'} {each.key_size}x{each.value_size}"
)


def whole(texts: Recurring) -> Moved:
    return texts.run(KernelContext(1), WHOLE)


@each_shape
def test_it_is_the_rule(texts: Recurring) -> None:
    found, (outputs, states) = whole(texts), texts.expected()
    for ours, exact in zip([*found.outputs, *found.slots[: len(LENGTHS)]], [*outputs, *states], strict=True):
        assert np.abs(ours - exact).max() <= 1e-5 * np.abs(exact).max()


@each_shape
@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_batch_and_threads_change_no_bit(texts: Recurring, threads: int) -> None:
    assert texts.run(KernelContext(threads), CUT).same_bits(whole(texts))


@each_shape
@pytest.mark.parametrize("instructions", available())
def test_all_instruction_sets_give_the_same_bits(texts: Recurring, instructions: Instructions) -> None:
    assert texts.run(KernelContext(2, instructions), CUT).same_bits(whole(texts))


@each_shape
def test_a_copy_is_the_state_at_its_token_and_can_be_continued(texts: Recurring) -> None:
    context = KernelContext(2)
    found = texts.run(context, [[Piece(0, 0, 50, ((17, 5), (50, 6))), Piece(2, 0, 33, ((32, 7),))]])
    until = texts.run(context, [[Piece(0, 0, 17)], [Piece(2, 0, 32)]])
    assert found.slots[5].tobytes() == until.slots[0].tobytes()
    assert found.slots[7].tobytes() == until.slots[2].tobytes()
    assert found.slots[6].tobytes() == found.slots[0].tobytes()
    kept = found.slots[5].copy()
    again = texts.run(context, [[Piece(0, 17, 53, source=5, target=4)]], found.slots)
    assert again.outputs[0][17:].tobytes() == whole(texts).outputs[0][17:].tobytes()
    assert again.slots[4].tobytes() == whole(texts).slots[0].tobytes()
    assert again.slots[5].tobytes() == kept.tobytes()


@each_shape
def test_no_other_slot_is_written(texts: Recurring) -> None:
    found = texts.run(KernelContext(2), [[Piece(0, 0, 9, ((3, 6),)), Piece(2, 0, 4, target=-1)]])
    written = [not np.isnan(slot).any() for slot in found.slots]
    assert written == [True, *[False] * 5, True, False]
    assert np.isnan(found.slots[[1, 2, 3, 4, 5, 7]]).all()


def test_what_is_not_a_number_stays_in_its_columns() -> None:
    texts = Recurring(corrects=True)
    texts.parts[2][0][5, 1, 3] = np.nan
    found = whole(texts)
    assert np.isnan(found.outputs[0][5:, 1, 3]).all()
    assert np.isnan(found.outputs[0]).sum() == LENGTHS[0] - 5
