"""Regular expressions of tokenizers that are known to take time in proportion to a text.

Any other may come with a checkpoint, and may take forever on a few characters, or end with an error of the library that
no program can catch."""

import json
import re

from tokenizers import Tokenizer

from headrace.gguf_text.pre_tokenizers import PRE_TOKENIZERS

_REGEX = re.compile(r'"Regex":("(?:[^"\\]|\\.)*")')
_LINEAR_NAMES = ("llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "seed-coder", "kimi-k2")
"""Pre-tokenizers, by llama.cpp's names, whose patterns are among the known ones."""
KNOWN = frozenset(
    {
        # GPT-2
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        # DeepSeek
        r"\p{N}{1,3}",
        r"\p{N}",
        r"[\r\n]",
        r"\s+$",
        r"\s?\p{P}+",
        # WordPiece and sentence-transformers
        r"\s+",
        *(pattern for name in _LINEAR_NAMES for pattern in PRE_TOKENIZERS[name].patterns),
    }
)


def has_known_patterns(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer searches texts for known expressions only."""
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.post_processor, tokenizer.decoder)
    states = (part.__getstate__().decode() for part in parts if part is not None)
    return all(json.loads(found) in KNOWN for state in states for found in _REGEX.findall(state))
