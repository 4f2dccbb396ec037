"""Attention of decodes and of a prompt: our kernels, and SDPA on keys and values gathered before."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tests.benchmarks.gpu.contest import OURS, Computation, Contender, Contest
from torch import Tensor
from torch.nn import functional

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS
from headrace.engine.triton.attention.decode_attention import attend_decodes
from headrace.engine.triton.attention.decode_work import DecodeWork, split_decodes
from headrace.engine.triton.attention.kv_pages import KvPages
from headrace.engine.triton.attention.prefill_attention import attend_spans, blocks_of_rows
from headrace.planning.roofline import Launch

DECODE, PREFILL = "Attention of decodes", "Attention of a prompt"
SDPA, GATHERED = "SDPA, gathered before", "gather and SDPA"
BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class AttentionSize:
    """Sizes of one layer."""

    head_count: int
    kv_head_count: int
    head_size: int


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of equal length in a paged KV cache, their blocks in no order."""

    size: AttentionSize
    pages: KvPages
    tables: Tensor
    length: int
    rule: AttentionRule

    def gather(self) -> tuple[Tensor, Tensor]:
        """Returns keys and values [texts, kv heads, tokens, head], contiguous."""
        states = self.pages.states[:, :, self.tables.long()]
        keys, values = states.flatten(3, 4).transpose(1, 2).contiguous()
        return keys[:, :, : self.length], values[:, :, : self.length]


def make_texts(size: AttentionSize, text_count: int, length: int, device: torch.device) -> Texts:
    """Fills a cache with random keys and values in bf16."""
    generator = torch.Generator().manual_seed(length)
    per_text = -(-length // BLOCK_SIZE)
    tables = torch.randperm(text_count * per_text, generator=generator).view(text_count, per_text).int()
    shape = (2, size.kv_head_count, text_count * per_text, BLOCK_SIZE, size.head_size)
    states = torch.randn(shape, generator=generator).to(device, torch.bfloat16)
    return Texts(size, KvPages(states), tables.to(device), length, AttentionRule(size.head_size**-0.5))


def list_decodes(size: AttentionSize, batches: tuple[int, ...], length: int, device: torch.device) -> Iterator[Contest]:
    """Makes a contest for each number of texts: one query each, after `length` tokens."""
    for count in batches:
        yield _decodes(make_texts(size, count, length, device), count, device)


def list_prefills(size: AttentionSize, lengths: tuple[int, ...], device: torch.device) -> Iterator[Contest]:
    """Makes a contest for each length of a prompt that is read at once."""
    for length in lengths:
        yield _prefill(make_texts(size, 1, length, device), device)


def _decodes(texts: Texts, count: int, device: torch.device) -> Contest:
    queries = _queries(texts.size, count, device)
    firsts = np.arange(count, dtype=np.int32) * texts.tables.shape[1]
    decodes, splits = split_decodes(np.full(count, texts.length, np.int32), firsts, SPLIT_TOKENS)
    counters = np.zeros(count * texts.size.kv_head_count, np.int32)
    numbers = (torch.from_numpy(each).to(device) for each in (decodes, splits, counters))
    work = DecodeWork(texts.tables.flatten(), *numbers)

    def ours() -> Tensor:
        return attend_decodes(queries, texts.pages, work, texts.rule)

    return _contest(DECODE, texts, queries[:, :, None], ours, is_causal=False)


def _prefill(texts: Texts, device: torch.device) -> Contest:
    queries, share = _queries(texts.size, texts.length, device), texts.size.head_count // texts.size.kv_head_count
    blocks = torch.tensor(blocks_of_rows([texts.length], share), dtype=torch.int32, device=device)
    spans = torch.tensor([[0, 0, texts.length, 0]], dtype=torch.int32, device=device)

    def ours() -> Tensor:
        return attend_spans(queries, texts.pages, texts.tables.flatten(), spans, blocks, texts.rule)

    return _contest(PREFILL, texts, queries.transpose(0, 1)[None], ours, is_causal=True)


def _contest(kind: str, texts: Texts, queries: Tensor, ours: Computation, *, is_causal: bool) -> Contest:
    """Makes a contest whose `queries` [texts, heads, tokens, head] are those of `ours`."""
    size, (text_count, _, token_count, _) = texts.size, queries.shape

    def attend(keys: Tensor, values: Tensor, asked: Tensor = queries) -> Tensor:
        found = functional.scaled_dot_product_attention(
            asked, keys, values, is_causal=is_causal, scale=texts.rule.scale, enable_gqa=True
        )
        return found.transpose(1, 2).flatten(0, 1)

    def exact() -> Tensor:
        keys, values = (each.float() for each in texts.gather())
        return attend(keys, values, queries.float())

    def gathered() -> Computation:
        keys, values = texts.gather()
        return lambda: attend(keys, values)

    kv_bytes = 2.0 * text_count * texts.length * size.kv_head_count * size.head_size * 2
    other_bytes = 2.0 * queries.numel() * 2
    seen = texts.length if token_count == 1 else (texts.length + 1) / 2
    operations = 4.0 * queries.numel() * seen
    launch, gathering = Launch(kv_bytes + other_bytes, operations), Launch(3 * kv_bytes + other_bytes, operations)
    contenders = (
        Contender(OURS, lambda: ours, launch),
        Contender(GATHERED, lambda: lambda: attend(*texts.gather()), gathering),
        Contender(SDPA, gathered, launch),
    )
    name = f"{size.head_count} heads, {size.kv_head_count} of KV, {size.head_size} wide, {texts.length} tokens"
    return Contest(kind, name, text_count * token_count, "bfloat16", exact, contenders)


def _queries(size: AttentionSize, token_count: int, device: torch.device) -> Tensor:
    generator = torch.Generator().manual_seed(token_count)
    shape = (token_count, size.head_count, size.head_size)
    return torch.randn(shape, generator=generator).to(device, torch.bfloat16)
