"""Regular expressions of tokenizers that are known to take time in proportion to a text.

Any other may come with a checkpoint, and may take forever on a few characters, or end with an error of the library that
no program can catch."""

import json
import re

from tokenizers import Tokenizer

_REGEX = re.compile(r'"Regex":("(?:[^"\\]|\\.)*")')
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD, _REST = r"[^\r\n\p{L}\p{N}]?\p{L}+", r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KNOWN = frozenset(
    {
        # GPT-2
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        # Llama 3, Qwen 2 and cl100k
        rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_REST}",
        rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_REST}",
        # o200k
        (
            rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_END}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_END}"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        # DeepSeek
        r"\p{N}{1,3}",
        r"\p{N}",
        r"[\r\n]",
        r"\s+$",
        r"\s?\p{P}+",
        # WordPiece and sentence-transformers
        r"\s+",
    }
)


def has_known_patterns(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer searches texts for known expressions only."""
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.post_processor, tokenizer.decoder)
    states = (part.__getstate__().decode() for part in parts if part is not None)
    return all(json.loads(found) in KNOWN for state in states for found in _REGEX.findall(state))
