"""Convolutions add products in the order of their taps, with the same bits in any chunks and batch, with any threads
and on every instruction set, and keep the last inputs of each text."""

import numpy as np
import pytest
from tests.libs.engine.kernels.moved_states import CUT, LENGTHS, WHOLE, Convolved, Piece
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available

pytestmark = needs_kernels

each_shape = pytest.mark.parametrize(
    "texts",
    [Convolved(4), Convolved(3, has_bias=False), Convolved(2, channel_count=9), Convolved(1, channel_count=310)],
    ids=lambda each: f"{each.tap_count} taps, {each.channel_count} channels",
)


@each_shape
@pytest.mark.parametrize("steps", [WHOLE, CUT], ids=["whole", "cut"])
@pytest.mark.parametrize("threads", [1, 3])
def test_it_is_the_sum_in_order(texts: Convolved, steps: list[list[Piece]], threads: int) -> None:
    found = texts.run(KernelContext(threads), steps)
    for ours, expected in zip(found.outputs, texts.expected(), strict=True):
        assert ours.tobytes() == expected.tobytes()
    for slot, text in zip(found.slots, texts.texts(), strict=False):
        padded = np.concatenate([np.zeros((texts.tap_count, texts.stride), np.float32), text])
        kept = padded[len(padded) - texts.tap_count + 1 :, : texts.channel_count]
        assert slot.tobytes() == np.ascontiguousarray(kept).tobytes()


@each_shape
@pytest.mark.parametrize("instructions", available())
def test_all_instruction_sets_give_the_same_bits(texts: Convolved, instructions: Instructions) -> None:
    assert texts.run(KernelContext(2, instructions), CUT).same_bits(texts.run(KernelContext(1), WHOLE))


@each_shape
def test_a_copy_is_the_tail_at_its_token_and_no_other_slot_is_written(texts: Convolved) -> None:
    context = KernelContext(2)
    step = [Piece(0, 0, 50, ((1, 5), (50, 6))), Piece(2, 0, 33, ((32, 7),), target=-1)]
    found = texts.run(context, [step])
    until = texts.run(context, [[Piece(0, 0, 1)], [Piece(2, 0, 32)]])
    assert found.slots[5].tobytes() == until.slots[0].tobytes()
    assert found.slots[7].tobytes() == until.slots[2].tobytes()
    assert found.slots[6].tobytes() == found.slots[0].tobytes()
    assert np.isnan(found.slots[1 : len(LENGTHS) + 2]).all()
