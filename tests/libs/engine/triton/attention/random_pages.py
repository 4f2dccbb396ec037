"""A random text in a paged KV cache, and what attention makes of it in fp64."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headrace.engine.triton.attention.attention_rule import AttentionRule
from headrace.engine.triton.attention.attention_tile import SPLIT_TOKENS
from headrace.engine.triton.attention.decode_work import DecodeWork, split_decodes
from headrace.engine.triton.attention.kv_pages import KvPages

BLOCK_SIZE = 16
MAX_CODES = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}


@dataclass(frozen=True, slots=True)
class RandomPages:
    """Keys and values of texts whose blocks lie in no order, among free blocks, which hold NaN."""

    pages: KvPages
    tables: Tensor
    """Block numbers of one text after the other, int32, each followed by one that does not exist."""
    first_blocks: tuple[int, ...]
    """Place of each text's first block number in `tables`."""
    lengths: tuple[int, ...]

    @property
    def exact(self) -> Tensor:
        """Keys and values in fp64 [2, kv heads, blocks, block size, head]."""
        states = self.pages.states.double()
        return states if self.pages.scales is None else states * self.pages.scales.double()[..., None]

    def attend(self, text: int, queries: Tensor, start: int, rule: AttentionRule) -> Tensor:
        """The oracle: maps queries [tokens, heads, head] of a text, from position `start`, to outputs in fp64."""
        length = self.lengths[text]
        blocks = self.tables[self.first_blocks[text] :][: -(-length // BLOCK_SIZE)].long()
        keys, values = self.exact[:, :, blocks].flatten(2, 3)[:, :, :length]
        share = queries.shape[1] // len(keys)
        keys, values = (part.repeat_interleave(share, dim=0) for part in (keys, values))
        scores = torch.einsum("qhd,hkd->hqk", queries.double(), keys) * rule.scale
        if rule.soft_cap is not None:
            scores = rule.soft_cap * torch.tanh(scores / rule.soft_cap)
        behind = torch.arange(start, start + len(queries))[:, None] - torch.arange(length)
        is_seen = (behind >= 0) & (behind < (rule.window or length))
        scores = scores.masked_fill(~is_seen, -torch.inf)
        if rule.sinks is not None:
            scores = torch.cat((scores, rule.sinks.double()[:, None, None].expand(-1, len(queries), 1)), dim=-1)
        weights = torch.softmax(scores, dim=-1)[..., :length]
        return torch.einsum("hqk,hkd->qhd", weights, values)

    def work(self, *texts: int, lengths: Sequence[int] | None = None) -> DecodeWork:
        """Decodes at the end of texts, of all of them if none is named, or of so many of their tokens."""
        chosen = texts or range(len(self.lengths))
        counts = np.array(lengths or [self.lengths[text] for text in chosen], np.int32)
        firsts = np.array([self.first_blocks[text] for text in chosen], np.int32)
        decodes, splits = split_decodes(counts, firsts, SPLIT_TOKENS)
        counters = torch.zeros(len(counts) * self.pages.states.shape[1], dtype=torch.int32)
        return DecodeWork(self.tables, torch.from_numpy(decodes), torch.from_numpy(splits), counters)


def make_pages(lengths: tuple[int, ...], kv_head_count: int, head_size: int, kind: torch.dtype) -> RandomPages:
    generator = torch.Generator().manual_seed(head_size)
    counts = [-(-length // BLOCK_SIZE) for length in lengths]
    order = torch.randperm(sum(counts), generator=generator).split(counts)
    nowhere = torch.tensor([1 << 20])
    tables = torch.cat([torch.cat([own, nowhere]) for own in order]).int()
    first_blocks = tuple(sum(counts[:text]) + text for text in range(len(counts)))
    states = torch.randn(2, kv_head_count, sum(counts) + 1, BLOCK_SIZE, head_size, generator=generator)
    states[:, :, -1] = torch.nan
    return RandomPages(keep(states, kind), tables, first_blocks, lengths)


def keep(states: Tensor, kind: torch.dtype) -> KvPages:
    """Keeps states as the kernels do: 8 bits have one scale for each token and head."""
    if kind.itemsize > 1:
        return KvPages(states.to(kind))
    scales = states.abs().amax(dim=-1) / MAX_CODES[kind]
    scaled = states / scales[..., None]
    return KvPages(scaled.round().to(kind) if kind == torch.int8 else scaled.to(kind), scales)


def make_queries(token_count: int, head_count: int, head_size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(token_count)
    return torch.randn(token_count, head_count, head_size, generator=generator).to(dtype)
