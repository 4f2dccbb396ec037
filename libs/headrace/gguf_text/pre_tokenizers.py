"""Pre-tokenizers of byte-level BPE by their names in GGUF files: the patterns that split text before pieces are merged.

The names are those of llama.cpp's converter, and the patterns those of the tokenizer.json of the models they come from.
"""

from dataclasses import dataclass

from headrace.gguf_text.deepseek_patterns import DEEPSEEK_2, DEEPSEEK_3


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """Splits text into words, whose bytes are merged."""

    patterns: tuple[str, ...] = ()
    """Patterns, applied one after the other. Without one, text is split as in GPT-2."""
    splits_digits: bool = False
    """Whether each digit is a word, before any pattern."""
    keeps_tokens: bool = False
    """Whether a word that is a token is not merged."""
    adds_bos: bool = False
    """Whether a text begins with the BOS token where a file does not say."""


_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str, letters: str = r"\p{L}", other: str = r"[^\s\p{L}\p{N}]+[\r\n]*") -> str:
    """Returns the pattern of GPT-4's tokenizer and its variants, from those of a number, of letters and of
    punctuation."""
    return rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?{letters}+|{digits}| ?{other}{_SPACES}"


def _cased(digits: str, ending: str, but: str = "", tail: str = r"[\r\n/]*") -> str:
    """Returns the pattern of GPT-4o's tokenizer and its variants, which split words before capitals. `ending` may
    follow a word, and `but` excludes letters from words."""
    upper, lower = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]", rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{but}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    words = f"{start}{upper}*{lower}+{ending}|{start}{upper}+{lower}*{ending}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+{tail}{_SPACES}"


_ONE, _THREE = r"\p{N}", r"\p{N}{1,3}"
_GPT_2 = PreTokenizer()
_DIGITS_APART = PreTokenizer(splits_digits=True)
_GPT_4 = PreTokenizer((_words(_THREE),))
_GPT_4O = PreTokenizer((_cased(_THREE, f"{_CONTRACTIONS}?"),))
_LLAMA_3 = PreTokenizer((_words(_THREE),), keeps_tokens=True, adds_bos=True)
_QWEN_2 = PreTokenizer((_words(_ONE),))
_QWEN_3_5 = PreTokenizer((_words(_ONE, r"[\p{L}\p{M}]", r"[^\s\p{L}\p{M}\p{N}]+[\r\n]*"),))
_TEKKEN = PreTokenizer((_cased(_ONE, ""),), keeps_tokens=True, adds_bos=True)
_SEED = PreTokenizer((_words(_ONE, other=r"[^\s\p{L}\p{N}\r\n]+"),))
_KIMI = PreTokenizer((r"[\p{Han}]+|" + _cased(_THREE, f"{_CONTRACTIONS}?", but=r"&&[^\p{Han}]", tail=r"[\r\n]*"),))
_BAILING = PreTokenizer(
    (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",)
)
_FALCON = PreTokenizer(
    (
        r"[\p{P}\$\+<=>\^~\|`]+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
        r"[0-9][0-9][0-9]",
    )
)
_NAMES = {
    _LLAMA_3: "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
    _GPT_4: "smaug-bpe dbrx glm4 chatglm-bpe",
    _QWEN_2: "qwen2 deepseek-r1-qwen stablelm2 hunyuan megrez kormo solar-open grok-2",
    _QWEN_3_5: "qwen35",
    _TEKKEN: "tekken",
    _GPT_4O: "gpt-4o llama4 minimax-m2 kanana2",
    _SEED: "seed-coder",
    _KIMI: "kimi-k2",
    _BAILING: "bailingmoe bailingmoe2 llada-moe",
    _FALCON: "falcon",
    PreTokenizer(DEEPSEEK_2): "deepseek-llm",
    PreTokenizer(DEEPSEEK_3): "deepseek-v3 hunyuan-dense joyai-llm",
    _GPT_2: "gpt-2 default mpt olmo jais trillion exaone4 granite-docling phi-2 a.x-4.0 mellum gigachat",
    _DIGITS_APART: "command-r refact smollm starcoder codeshell exaone minerva-7b mellum2",
}
PRE_TOKENIZERS = {name: rules for rules, names in _NAMES.items() for name in names.split()}
"""Pre-tokenizers by `tokenizer.ggml.pre`."""
