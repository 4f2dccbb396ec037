"""Builds a tokenizer from the metadata of a GGUF file.

Three kinds cover today's models: `gpt2`, byte-level BPE whose merges are stored, `llama`, SentencePiece BPE whose
merges follow from the scores of the pieces, and `gemma4`, the same with merges that are stored.
"""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from headrace.errors import InvalidCheckpoint, Unsupported
from headrace.gguf_text.gguf_ends import end_token_ids
from headrace.gguf_text.gguf_parts import read_parts
from headrace.gguf_text.pre_tokenizers import PRE_TOKENIZERS

UNKNOWN, CONTROL, USER_DEFINED = 2, 3, 4
"""Token types whose text is never split."""
_UNSTRIPPED = ("<unk>", "<s>", "<|endoftext|>")
"""Marks of Phi-3 that keep the space behind them. Files have no field for it: the model's name decides."""
_USUAL_BOS = {"llama": 1, "gemma4": 2}
"""Tokens that begin a text, by the kind of tokenizer, where files do not say."""


class GgufText:
    """The text side of a GGUF file: its tokens, and the rules that split text into them."""

    def __init__(self, path: Path) -> None:
        """Reads the file's metadata. Raises InvalidCheckpoint."""
        self._path = path
        try:
            _, self._header = read_parts(path)[0]
            self.tokens: list[str] = self.get("tokenizer.ggml.tokens", [])
            self._types: list[int] = self.get("tokenizer.ggml.token_type", [])
        except InvalidCheckpoint:
            raise
        except (ValueError, KeyError, IndexError, TypeError, OSError, UnicodeDecodeError) as error:
            raise InvalidCheckpoint(f"{path} is not a whole GGUF file: {error!r}") from None
        if not self.tokens:
            raise InvalidCheckpoint(f"{path} holds no tokenizer")

    def get(self, key: str, default: Any = None) -> Any:
        return self._header.get(key, default)

    @property
    def chat_templates(self) -> dict[str, str]:
        """Returns the sources of chat templates by their names. The one without a name is the default."""
        key = "tokenizer.chat_template"
        keys = {"default": key, **{str(name): f"{key}.{name}" for name in self.get("tokenizer.chat_templates", ())}}
        found = {name: self.get(place) for name, place in keys.items()}
        return {name: text for name, text in found.items() if isinstance(text, str) and text}

    @property
    def special_tokens(self) -> dict[str, str]:
        """Special tokens, as text, that templates refer to."""
        names = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "unknown": "unk_token"}
        ids = {name: self._token_id(name) for name in names}
        return {names[name]: self.tokens[value] for name, value in ids.items() if value is not None}

    @property
    def eos_token_ids(self) -> list[int]:
        """Returns the ids of all tokens that end a text or a turn."""
        try:
            return end_token_ids(self._header)
        except TypeError as error:
            raise InvalidCheckpoint(f"{self._path}: metadata {error}") from None

    def tokenizer(self) -> Tokenizer:
        """Builds the tokenizer. Raises Unsupported for unknown kinds, and InvalidCheckpoint for merges of what are no
        tokens."""
        kind = self.get("tokenizer.ggml.model", "none")
        if kind == "gpt2":
            built = self._byte_level()
        elif kind in ("llama", "gemma4"):
            built = self._sentence_piece(self._merges() if kind == "gemma4" else self._scored_merges())
        else:
            raise Unsupported(f"GGUF tokenizer {kind!r} is not supported; supported: gpt2, llama, gemma4")
        built.add_tokens(self._marks())
        before, after = self._ends()
        if before or after:
            parts = [*before, "$A", *after]
            special = [(name, self.tokens.index(name)) for name in {*before, *after}]
            template = processors.TemplateProcessing(single=" ".join(parts), special_tokens=special)
            built.post_processor = processors.Sequence([template])
        return built

    def _marks(self) -> list[AddedToken]:
        """Returns the tokens whose text is never split."""
        ends = set(self.eos_token_ids)
        strips = any(name in str(self.get("general.name", "")).lower() for name in ("phi-3", "phi3"))
        return [
            AddedToken(
                token,
                special=index in ends or kind != USER_DEFINED,
                normalized=False,
                rstrip=strips and token not in _UNSTRIPPED,
            )
            for index, (token, kind) in enumerate(zip(self.tokens, self._types, strict=False))
            if token and (index in ends or kind in (UNKNOWN, CONTROL, USER_DEFINED))
        ]

    def _ends(self) -> tuple[list[str], list[str]]:
        """Returns the tokens that are added before a text, and those after it."""
        kind = self.get("tokenizer.ggml.model")
        rules = PRE_TOKENIZERS.get(str(self.get("tokenizer.ggml.pre", "")))
        has_bos = kind in _USUAL_BOS or (rules is not None and rules.adds_bos)
        bos, eos = self._token_id("bos", _USUAL_BOS.get(kind)), self._token_id("eos")
        before = [bos] if self.get("tokenizer.ggml.add_bos_token", has_bos) and bos is not None else []
        after = [eos] if self.get("tokenizer.ggml.add_eos_token", False) and eos is not None else []
        return [self.tokens[token_id] for token_id in before], [self.tokens[token_id] for token_id in after]

    def _token_id(self, name: str, default: int | None = None) -> int | None:
        """Returns the id of a token of the kind `name`, None where the file has no such token."""
        value = self.get(f"tokenizer.ggml.{name}_token_id", default)
        return value if isinstance(value, int) and 0 <= value < len(self.tokens) else None

    def _byte_level(self) -> Tokenizer:
        name = str(self.get("tokenizer.ggml.pre", "default"))
        rules = PRE_TOKENIZERS.get(name)
        if rules is None:
            known = ", ".join(PRE_TOKENIZERS)
            raise Unsupported(f"GGUF pre-tokenizer {name!r} is not supported; supported: {known}")
        tokenizer = self._byte_pairs(self._merges(), ignore_merges=rules.keeps_tokens)
        digits = [pre_tokenizers.Digits(individual_digits=True)] if rules.splits_digits else []
        steps: list[Any] = [*digits, *(pre_tokenizers.Split(Regex(each), "isolated") for each in rules.patterns)]
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not rules.patterns))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def _merges(self) -> list[tuple[str, str]]:
        """Reads the pairs of pieces that are joined, first ones first."""
        pairs = (str(merge).partition(" ") for merge in self.get("tokenizer.ggml.merges", []))
        return [(left, right) for left, _, right in pairs]

    def _scored_merges(self) -> list[tuple[str, str]]:
        """Derives the pairs of pieces that are joined from the scores of the pieces that they make."""
        scores = self.get("tokenizer.ggml.scores", [])
        vocabulary = {token: index for index, token in enumerate(self.tokens)}
        ranked = []
        for token, score in zip(self.tokens, scores, strict=False):
            for cut in range(1, len(token)):
                left, right = token[:cut], token[cut:]
                if left in vocabulary and right in vocabulary:
                    ranked.append((-score, vocabulary[left], vocabulary[right], left, right))
        return [(left, right) for *_, left, right in sorted(ranked)]

    def _sentence_piece(self, merges: list[tuple[str, str]]) -> Tokenizer:
        unknown = self.tokens[self._token_id("unknown", 0) or 0]
        tokenizer = self._byte_pairs(merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
        has_prefix = bool(self.get("tokenizer.ggml.add_space_prefix", self.get("tokenizer.ggml.model") == "llama"))
        prefix = [normalizers.Prepend("▁")] if has_prefix else []
        tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", "▁")])
        strip = [decoders.Strip(" ", 1, 0)] if has_prefix else []
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
        )
        return tokenizer

    def _byte_pairs(self, merges: list[tuple[str, str]], **options: Any) -> Tokenizer:
        """Makes a tokenizer of byte pairs (Sennrich et al., 2016)."""
        vocabulary = {token: index for index, token in enumerate(self.tokens)}
        try:
            return Tokenizer(models.BPE(vocabulary, merges, **options))
        except Exception as error:  # noqa: BLE001 - the library raises no narrower kind
            raise InvalidCheckpoint(f"{self._path}: a merge of its tokenizer is not of its tokens: {error}") from None
