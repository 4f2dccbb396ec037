"""The kernels of attention, store and norm read and write nothing beside their tensors, and no two programs write the
same place. Planted mistakes show that these tests see them."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.libs.engine.triton.attention.random_pages import make_pages, make_queries
from tests.libs.engine.triton.guards import GUARD, guard, plant
from tests.libs.engine.triton.interpreter import run_backwards
from tests.libs.engine.triton.random_weights import make_inputs
from torch import Tensor

from headrace.engine.triton import gated_activation, residual_norm
from headrace.engine.triton.attention import decode_attention, prefill_attention, rotary_store
from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.decode_work import DecodeWork
from headrace.engine.triton.attention.kv_pages import KvPages
from headrace.engine.triton.split_sum import SplitRows

# Planted mistakes make numbers of no numbers; they are to be seen in what comes out.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value", "ignore:All-NaN slice")
LENGTHS = (37, 20)
RULE = AttentionRule(0.25, window=21)
LONG_RULE = AttentionRule(0.25, window=290)
Kernel = Callable[[ModuleType], Tensor]


def integers(*rows: object) -> Tensor:
    return guard(torch.tensor(rows, dtype=torch.int32))


def decode(module: ModuleType) -> Tensor:
    """Attends to a text of one split and to one of two, of which the window hides a part."""
    made = make_pages((20, 300), 2, 24, torch.float32)
    work = made.work()
    guarded = DecodeWork(guard(made.tables), guard(work.decodes), guard(work.splits), guard(work.counters))
    return module.attend_decodes(guard(make_queries(2, 6, 24)), KvPages(guard(made.pages.states)), guarded, LONG_RULE)


def prefill(module: ModuleType) -> Tensor:
    made = make_pages(LENGTHS, 2, 24, torch.float32)
    pages, tables = KvPages(guard(made.pages.states)), guard(made.tables)
    spans = integers((0, 20, 17, made.first_blocks[0]), (17, 3, 17, made.first_blocks[1]))
    programs = integers(*module.blocks_of_rows([17, 17], 3))
    return module.attend_spans(guard(make_queries(34, 6, 24)), pages, tables, spans, programs, RULE)


def store(module: ModuleType) -> Tensor:
    """Returns queries, codes and scales, as one row of numbers."""
    pages = KvPages(torch.zeros(2, 2, 3, 16, 24, dtype=torch.int8), torch.zeros(2, 2, 3, 16))
    angles = torch.rand(9, 10, generator=torch.Generator().manual_seed(2))
    norms = guard(torch.rand(2, 24, generator=torch.Generator().manual_seed(3)))
    heads = module.RotaryHeads(3, guard(angles.cos()), guard(angles.sin()), norms, 1e-5)
    projected = guard(make_inputs(4, 7 * 24))
    queries = module.rotate_and_store(projected, heads, pages, integers(0, 8, 3, 1), integers(47, 0, 5, 16))
    assert pages.scales is not None
    return torch.cat([queries.flatten(), pages.states.flatten().float(), pages.scales.flatten()])


def norm(module: ModuleType) -> Tensor:
    return module.normalize(guard(make_inputs(3, 70)), guard(make_inputs(1, 70)), 1e-5)


def added_norm(module: ModuleType) -> Tensor:
    """Returns sums and what they are normalized to, as one row of numbers."""
    partials = guard(torch.stack([make_inputs(3, 70), make_inputs(4, 70)[:3]]))
    rows = SplitRows(partials, guard(make_inputs(5, 70)[0]), torch.float32)
    found = module.add_and_normalize(rows, guard(make_inputs(6, 70)[:3]), guard(make_inputs(1, 70)), 1e-5)
    return torch.cat([each.flatten() for each in found])


def gate(module: ModuleType) -> Tensor:
    rows = SplitRows(guard(make_inputs(6, 2 * 70).view(2, 3, 140)), guard(make_inputs(1, 140)), torch.float32)
    return module.sum_and_gate(rows, "relu")


MODULES = {"decode": decode_attention, "prefill": prefill_attention, "store": rotary_store, "norm": residual_norm}
MODULES |= {"added norm": residual_norm, "gate": gated_activation}
RUNS: dict[str, Kernel] = {"decode": decode, "prefill": prefill, "store": store, "norm": norm}
RUNS |= {"added norm": added_norm, "gate": gate}


def check_bounds(name: str, module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """Raises AssertionError if a kernel reads or writes beside its tensors, or leaves a part of its outputs."""
    expected, made = RUNS[name](MODULES[name]), []

    def empty(shape: tuple[int, ...], **_: object) -> Tensor:
        count = torch.Size(shape).numel()
        around = torch.full((count + 2 * GUARD,), -7.0)
        around[GUARD:-GUARD] = torch.nan
        made.append(around)
        return around[GUARD:-GUARD].view(shape)

    with patch.context() as patched:
        patched.setattr(torch, "empty", empty)
        patched.setattr(torch, "empty_like", lambda like: empty(tuple(like.shape)))
        found = RUNS[name](module)
    assert torch.isfinite(found).all()
    assert torch.equal(found, expected)
    assert made
    assert all((around[:GUARD] == -7).all() and (around[-GUARD:] == -7).all() for around in made)


def check_order(name: str, module: ModuleType, patch: pytest.MonkeyPatch) -> None:
    """Raises AssertionError if the order of programs changes a result."""
    with patch.context() as patched:
        # What no program writes stays 0 in both.
        patched.setattr(torch, "empty", torch.zeros)
        patched.setattr(torch, "empty_like", torch.zeros_like)
        forwards = RUNS[name](module)
        run_backwards(patched)
        assert torch.equal(RUNS[name](module), forwards)


@pytest.mark.parametrize("name", MODULES)
def test_nothing_beside_the_tensors_is_touched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_bounds(name, MODULES[name], monkeypatch)


@pytest.mark.parametrize("name", MODULES)
def test_programs_do_not_race(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_order(name, MODULES[name], monkeypatch)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("decode", "tokens < length", "tokens <= length"),
        ("decode", "tokens >= first_seen", "tokens > first_seen"),
        ("decode", "heads < share", "heads < share + 1"),
        ("prefill", "tokens < end", "tokens < end - 1"),
        ("prefill", "behind >= 0", "behind >= -1"),
        ("prefill", "behind < window", "behind <= window"),
        ("prefill", "rows < count * share", "rows <= count * share"),
        ("store", "is_element = elements < head_size", "is_element = elements <= head_size"),
        ("store", "elements + half", "elements + half + 1"),
        ("norm", "is_place = places < size", "is_place = places <= size"),
        ("added norm", "is_place = places < size", "is_place = places <= size"),
        ("decode", "(splits < end)", "(splits < end - 1)"),
        ("decode", "split_count - first_split:", "split_count - first_split + 1:"),
        ("gate", "place + size, places + size", "place + size + 1, places + size"),
        ("gate", "is_place = places < size", "is_place = places <= size"),
    ],
)
def test_a_planted_off_by_one_is_seen(
    name: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = plant(MODULES[name], tmp_path, right, wrong)
    with pytest.raises(AssertionError):
        check_bounds(name, planted, monkeypatch)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("decode", "outputs + pair * share", "outputs + kv_head * share"),
        ("prefill", "outputs + query_places", "outputs + query_places % (8 * head_size)"),
        ("store", "query = (token * head_count", "query = (0 * head_count"),
        ("norm", "tl.store(outputs + row", "tl.store(outputs + places"),
    ],
)
def test_a_planted_race_of_two_programs_is_seen(
    name: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = plant(MODULES[name], tmp_path, right, wrong)
    with pytest.raises(AssertionError):
        check_order(name, planted, monkeypatch)
