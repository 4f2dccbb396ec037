"""Builds a tokenizer from the metadata of a GGUF file.

Two kinds cover today's models: `gpt2`, byte-level BPE whose merges are stored, and `llama`, SentencePiece BPE whose
merges follow from the scores of the pieces.
"""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from headrace.errors import InvalidCheckpoint, Unsupported
from headrace.gguf_text.gguf_header import GgufHeader

CONTROL, USER_DEFINED = 3, 4
"""Token types whose text is never split."""
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SPLIT_PATTERNS: dict[str, str | None] = {
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "smaug-bpe": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "gpt-2": None,
    "default": None,
}
"""Patterns that split text before merging, by `tokenizer.ggml.pre`. None is GPT-2's own pattern."""


class GgufText:
    """The text side of a GGUF file: its tokens, and the rules that split text into them."""

    def __init__(self, path: Path) -> None:
        """Reads the file's metadata. Raises InvalidCheckpoint."""
        try:
            self._header = GgufHeader(path)
            self.tokens: list[str] = self.get("tokenizer.ggml.tokens", [])
            self._types: list[int] = self.get("tokenizer.ggml.token_type", [])
        except (ValueError, KeyError, IndexError, TypeError, OSError, UnicodeDecodeError) as error:
            raise InvalidCheckpoint(f"{path} is not a whole GGUF file: {error!r}") from None
        if not self.tokens:
            raise InvalidCheckpoint(f"{path} holds no tokenizer")

    def get(self, key: str, default: Any = None) -> Any:
        return self._header.get(key, default)

    @property
    def chat_template(self) -> str | None:
        template = self.get("tokenizer.chat_template")
        return None if template is None else str(template)

    @property
    def special_tokens(self) -> dict[str, str]:
        """Special tokens, as text, that templates refer to."""
        ids = {name: self.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "padding", "unknown")}
        names = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "unknown": "unk_token"}
        return {names[name]: self.tokens[int(value)] for name, value in ids.items() if value is not None}

    @property
    def eos_token_ids(self) -> list[int]:
        keys = ("eos", "eot", "eom")
        return [int(value) for key in keys if (value := self.get(f"tokenizer.ggml.{key}_token_id")) is not None]

    def tokenizer(self) -> Tokenizer:
        """Builds the tokenizer. Raises Unsupported for unknown kinds."""
        kind = self.get("tokenizer.ggml.model", "none")
        if kind == "gpt2":
            built = self._byte_level()
        elif kind == "llama":
            built = self._sentence_piece()
        else:
            raise Unsupported(f"GGUF tokenizer {kind!r} is not supported; supported: gpt2, llama")
        marks = [
            AddedToken(token, special=kind == CONTROL, normalized=False)
            for token, kind in zip(self.tokens, self._types, strict=False)
            if kind in (CONTROL, USER_DEFINED)
        ]
        built.add_tokens(marks)
        if self.get("tokenizer.ggml.add_bos_token", self.get("tokenizer.ggml.model") == "llama"):
            bos = int(self.get("tokenizer.ggml.bos_token_id", 1))
            name = self.tokens[bos]
            built.post_processor = processors.Sequence(
                [processors.TemplateProcessing(single=f"{name} $A", special_tokens=[(name, bos)])]
            )
        return built

    def _byte_level(self) -> Tokenizer:
        pattern_name = self.get("tokenizer.ggml.pre", "default")
        if pattern_name not in SPLIT_PATTERNS:
            known = ", ".join(SPLIT_PATTERNS)
            raise Unsupported(f"GGUF pre-tokenizer {pattern_name!r} is not supported; supported: {known}")
        vocabulary = {token: index for index, token in enumerate(self.tokens)}
        merges = [tuple(merge.split(" ", 1)) for merge in self.get("tokenizer.ggml.merges", [])]
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=pattern_name in ("llama-bpe", "llama3")))
        pattern = SPLIT_PATTERNS[pattern_name]
        steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def _sentence_piece(self) -> Tokenizer:
        scores = self.get("tokenizer.ggml.scores", [])
        vocabulary = {token: index for index, token in enumerate(self.tokens)}
        ranked = []
        for token, score in zip(self.tokens, scores, strict=False):
            for cut in range(1, len(token)):
                left, right = token[:cut], token[cut:]
                if left in vocabulary and right in vocabulary:
                    ranked.append((-score, vocabulary[left], vocabulary[right], left, right))
        merges = [(left, right) for *_, left, right in sorted(ranked)]
        unknown = self.tokens[int(self.get("tokenizer.ggml.unknown_token_id", 0))]
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
        has_prefix = bool(self.get("tokenizer.ggml.add_space_prefix", True))
        prefix = [normalizers.Prepend("▁")] if has_prefix else []
        tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
        strip = [decoders.Strip(" ", 1, 0)] if has_prefix else []
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
        )
        return tokenizer
