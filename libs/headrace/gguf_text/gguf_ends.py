"""Tokens of a GGUF file that end a text or a turn.

A file names one or two of them, and often not the one that its chat template closes turns with: Phi-3's and many of
models that were trained further name `<|endoftext|>` alone. So llama.cpp takes tokens of known texts for ends as well.
"""

from headrace.gguf_text.gguf_header import GgufHeader

NAMED = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
"""Kinds of tokens that end a text, as in `tokenizer.ggml.eos_token_id`."""
TEXTS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<|fim_pad|>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<|file_sep|>",
)
"""Texts of tokens that end a text or a turn in any file."""
CONTINUED = (
    ({"<|return|>", "<|call|>"}, "<|end|>"),
    ({"<|calls|>", "<|flush|>"}, "<|end|>"),
    ({"<|tool_response>"}, "</s>"),
)
"""Texts beside which another one ends only a part of an answer, after which the model continues."""


def end_token_ids(header: GgufHeader) -> list[int]:
    """Returns the ids of all tokens that end a text or a turn: first the ones that the file names. Raises TypeError for
    an id that is no number."""
    found = header.places("tokenizer.ggml.tokens", TEXTS)
    for beside, text in CONTINUED:
        if beside <= found.keys():
            found.pop(text, None)
    return list(dict.fromkeys([*_named(header), *found.values()]))


def _named(header: GgufHeader) -> list[int]:
    count, ids = header.count("tokenizer.ggml.tokens"), []
    for name in NAMED:
        key = f"tokenizer.ggml.{name}_token_id"
        value = header.get(key)
        if value is not None and not isinstance(value, int):
            raise TypeError(f"{key} is {value!r:.80}, not a token")
        # Converters write -1, or the largest number, where there is no such token.
        if value is not None and 0 <= value < count:
            ids.append(value)
    return ids
