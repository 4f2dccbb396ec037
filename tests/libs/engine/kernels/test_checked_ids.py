"""A number that names something that is not there is refused before any memory is read or written by it."""

from array import array
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.cpu.decoder import CpuDecoder
from headrace.engine.cpu.weights.packed_reader import read_packed_weights
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.library import Function
from headrace.engine.kernels.packed_weight import pack_codes, pack_plain
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Draw, Encoder, EncoderBatch, Layer, Model, Norm, Routing, Step
from headrace.engine.memory.aligned import address

pytestmark = needs_kernels
CONFIG = read_model_config(CHECKPOINT)
BLOCK_SIZE, BLOCK_COUNT, MAX_LEN = 16, 8, 96
VOCABULARY = CONFIG.vocabulary_size
LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@dataclass
class Numbers:
    """Everything that a step names by number: two sequences, of which one has 20 tokens before."""

    token_ids: list[int] = field(default_factory=lambda: [5, 6, VOCABULARY - 1, 0, 7])
    tables: list[int] = field(default_factory=lambda: [3, BLOCK_COUNT - 1, 0])
    spans: list[int] = field(default_factory=lambda: [0, 3, 20, 0, 3, 2, 0, 2])
    logit_rows: list[int] = field(default_factory=lambda: [0, 4])
    table_size: int | None = None

    def step(self, logits: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> tuple[Step, list["array[int]"]]:
        kept = [array("q", values) for values in (self.token_ids, self.tables, self.spans, self.logit_rows)]
        pointers = (values.buffer_info()[0] for values in kept)
        size = len(self.tables) if self.table_size is None else self.table_size
        counts = (len(self.token_ids), len(self.spans) // 4, len(self.logit_rows), size)
        return Step(*pointers, address(logits), *counts), kept


def with_span(index: int, value: int) -> Numbers:
    numbers = Numbers()
    numbers.spans[index] = value
    return numbers


BAD = {
    "a token id below zero": (Numbers(token_ids=[5, 6, -1, 0, 7]), "token id"),
    "a token id of a larger vocabulary": (Numbers(token_ids=[5, 6, 7, 0, VOCABULARY]), "token id"),
    "the largest token id": (Numbers(token_ids=[LARGEST, 6, 7, 0, 7]), "token id"),
    "a block below zero": (Numbers(tables=[3, -1, 0]), "block number"),
    "a block beyond the cache": (Numbers(tables=[BLOCK_COUNT, 7, 0]), "block number"),
    "the smallest block": (Numbers(tables=[3, 7, SMALLEST]), "block number"),
    "too few blocks": (Numbers(table_size=2), "spans"),
    "no blocks": (Numbers(tables=[]), "spans"),
    "a span that begins elsewhere": (with_span(0, 1), "spans"),
    "a span that is too long": (with_span(1, 4), "spans"),
    "an empty span": (with_span(1, 0), "spans"),
    "a span of the largest length": (with_span(5, LARGEST), "spans"),
    "a position below zero": (with_span(2, -1), "spans"),
    "the largest position": (with_span(2, LARGEST), "spans"),
    "blocks from below zero": (with_span(3, -1), "spans"),
    "blocks from beyond": (with_span(7, LARGEST), "spans"),
    "a row below zero": (Numbers(logit_rows=[-1, 4]), "wanted row"),
    "a row beyond": (Numbers(logit_rows=[0, 5]), "wanted row"),
    "a position without angles": (
        Numbers(tables=[0, 1, 2, 3, 4, 5, 6, 7], spans=[0, 3, MAX_LEN - 2, 0, 3, 2, 0, 2]),
        "position",
    ),
}


class Decoder:
    """The demo model with a small KV cache."""

    def __init__(self, window: int | None = None) -> None:
        config = replace(CONFIG, windows=(window,) * CONFIG.layer_count)
        weights = read_packed_weights(CHECKPOINT, config, WeightRounding(8), exact=False)
        self.context = KernelContext(2)
        self.decoder = CpuDecoder(config, MAX_LEN, weights, exact=False)
        shape = KvShape(CONFIG.layer_count, CONFIG.kv_head_count, CONFIG.head_size, BLOCK_SIZE, Storage.F32)
        self.arena = KvArena(shape, BLOCK_COUNT)
        self.decoder.bind(self.arena)
        self.logits = np.zeros((2, VOCABULARY), np.float32)

    def run(self, numbers: Numbers) -> None:
        step, _kept = numbers.step(self.logits)
        self.decoder.compute(step, self.context, self.context.instructions)

    def attend(self, numbers: Numbers) -> None:
        step, _kept = numbers.step(self.logits)
        width = (CONFIG.head_count + 2 * CONFIG.kv_head_count) * CONFIG.head_size
        projected = np.ones((len(numbers.token_ids), width), np.float32)
        outputs = np.zeros((len(numbers.token_ids), CONFIG.head_count * CONFIG.head_size), np.float32)
        model: Model = self.decoder._model
        layer: Layer = self.decoder._layers[0]
        self.context.attend(model, layer, step, address(projected), address(outputs))


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder()


@pytest.mark.parametrize("name", BAD)
def test_a_step_with_a_bad_number_is_refused_and_writes_nothing(decoder: Decoder, name: str) -> None:
    numbers, reason = BAD[name]
    decoder.arena.clear(list(range(BLOCK_COUNT)))
    with pytest.raises(IndexError, match=reason):
        decoder.run(numbers)
    assert not decoder.arena._memory.any()
    decoder.run(Numbers())
    assert decoder.logits.any()


@pytest.mark.parametrize(
    "name", [name for name, (_, reason) in BAD.items() if reason not in ("token id", "wanted row")]
)
def test_attention_with_a_bad_number_is_refused_and_writes_nothing(decoder: Decoder, name: str) -> None:
    numbers, reason = BAD[name]
    decoder.arena.clear(list(range(BLOCK_COUNT)))
    with pytest.raises(IndexError, match=reason):
        decoder.attend(numbers)
    assert not decoder.arena._memory.any()
    decoder.attend(Numbers())


@pytest.mark.parametrize("adapter", [0, 1, -2, LARGEST, SMALLEST])
def test_an_adapter_that_is_not_there_is_refused(decoder: Decoder, adapter: int) -> None:
    step, _kept = Numbers().step(decoder.logits)
    adapters = np.array([-1, adapter])
    step.adapters = address(adapters)
    with pytest.raises(IndexError, match="an adapter"):
        decoder.decoder.compute(step, decoder.context, decoder.context.instructions)


def test_the_last_token_block_and_position_are_fine(decoder: Decoder) -> None:
    blocks = list(range(MAX_LEN // BLOCK_SIZE))
    decoder.run(Numbers([VOCABULARY - 1] * 3, [*blocks, BLOCK_COUNT - 1], [0, 3, MAX_LEN - 3, 0], [0, 2]))


def test_blocks_before_the_window_may_be_given_back_and_those_within_may_not() -> None:
    """`BlockPool.no_block` stands in for them. Tokens at 40 to 42 that see 9 need the blocks from 32 on."""
    decoder = Decoder(window=9)
    decoder.run(Numbers([1, 2, 3], [BLOCK_COUNT, BLOCK_COUNT, 2], [0, 3, 40, 0], [0, 2]))
    for tables in ([BLOCK_COUNT, BLOCK_COUNT, BLOCK_COUNT], [0, 1, -1]):
        with pytest.raises(IndexError, match="block number"):
            decoder.run(Numbers([1, 2, 3], tables, [0, 3, 40, 0], [0, 2]))
    # The first of these sees token 31.
    with pytest.raises(IndexError, match="block number"):
        decoder.run(Numbers([1, 2, 3], [BLOCK_COUNT, BLOCK_COUNT, 2], [0, 3, 39, 0], [0, 2]))


def test_an_empty_step_is_fine(decoder: Decoder) -> None:
    decoder.run(Numbers([], [], [], []))


@dataclass
class Batch:
    """Everything that a batch of an encoder names by number: two inputs. There are 8 words and 6 positions, and the
    longest input has 4 tokens."""

    token_ids: list[int] = field(default_factory=lambda: [0, 7, 3])
    positions: list[int] = field(default_factory=lambda: [0, 1, 5])
    lengths: list[int] = field(default_factory=lambda: [2, 1])

    def run(self, context: KernelContext) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
        table, vector = np.ones((8, 16), np.float32), np.ones(16, np.float32)
        norm = Norm(address(vector), address(vector), 16, 1e-5)
        places = (address(table), address(table), norm)
        encoder = Encoder(None, *places, 0, 16, 8, 6, 1, 4, None, 0, Storage.F32, Function.GELU, 1.0)
        hidden = np.zeros((len(self.token_ids), 16), np.float32)
        kept = [np.array(numbers, np.int64) for numbers in (self.token_ids, self.positions, self.lengths)]
        batch = EncoderBatch(*map(address, kept), address(hidden), len(self.token_ids), len(self.lengths))
        try:
            context.encode(encoder, batch)
        except IndexError:
            assert not hidden.any()
            raise
        return hidden


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (Batch(token_ids=[0, 8, 3]), "token id"),
        (Batch(token_ids=[0, -1, 3]), "token id"),
        (Batch(positions=[0, 6, 5]), "position"),
        (Batch(positions=[SMALLEST, 1, 5]), "position"),
        (Batch(lengths=[2, 2]), "inputs"),
        (Batch(lengths=[1, 1]), "inputs"),
        (Batch(lengths=[2, 0, 1]), "inputs"),
        (Batch(lengths=[4, -1]), "inputs"),
        (Batch(lengths=[2, LARGEST]), "inputs"),
        (Batch([0] * 5, [0] * 5, [5]), "inputs"),
    ],
)
def test_a_batch_of_an_encoder_with_a_bad_number_is_refused_and_writes_nothing(batch: Batch, reason: str) -> None:
    context = KernelContext(1)
    with pytest.raises(IndexError, match=reason):
        batch.run(context)
    assert Batch().run(context).any()
    assert Batch([], [], []).run(context).size == 0


@pytest.mark.parametrize(("expert_count", "chosen_count"), [(4, 5), (4, 0), (4, -1), (0, 1)])
def test_more_experts_than_there_are_cannot_be_chosen(expert_count: int, chosen_count: int) -> None:
    context = KernelContext(1)
    scores = np.ones((1, 8), np.float32)
    shares, experts = np.zeros((1, 8), np.float32), np.zeros((1, 8), np.int64)
    with pytest.raises(IndexError, match="count"):
        context.route(
            Routing(expert_count, chosen_count, normalizes=1), address(scores), address(shares), address(experts), 1
        )
    assert not experts.any()


def test_more_tokens_than_the_vocabulary_cannot_be_ranked_and_none_not_drawn() -> None:
    context = KernelContext(1)
    logits = np.ones((1, 10), np.float32)
    assert context.rank(logits, 10)[0].shape == (1, 10)
    with pytest.raises(IndexError, match="count"):
        context.rank(logits, 11)
    with pytest.raises(IndexError, match="count"):
        context.draw([Draw(address(logits), 0.5, -1, 0, 1.0, 1.0, 0.0)], 10)
    with pytest.raises(IndexError, match="count"):
        context.draw([Draw(address(logits), 0.5, 0, 0, 1.0, 1.0, 0.0)], 0)


@pytest.mark.parametrize("rows", [[0, 4], [-2, 0]])
def test_rows_that_a_weight_does_not_have_cannot_be_packed(rows: list[int]) -> None:
    chosen = np.array(rows, np.int64)
    with pytest.raises(IndexError, match="of a weight that has 4"):
        pack_plain(np.ones((4, 32), np.float32), Storage.F32, chosen)
    codes, scales, zeros = np.ones((4, 32), np.uint8), np.ones((4, 1), np.float32), np.zeros((4, 1), np.uint8)
    with pytest.raises(IndexError, match="of a weight that has 4"):
        pack_codes(codes, scales, zeros, Storage.U8, chosen)
