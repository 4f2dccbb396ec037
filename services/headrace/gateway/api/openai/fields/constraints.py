"""Fields of other servers that constrain the output, or score it: unsupported ones are refused by name, because an
answer without them looks as if it had kept to them."""

from typing import Any

from headrace.gateway.api.entry.neutral import Neutral, is_value, never

REFUSED: dict[str, Neutral] = {
    "bad_words": never,
    "chat_template": never,
    "early_stopping": is_value(False),
    "guided_decoding_backend": is_value("auto", "guidance"),
    "guided_whitespace_pattern": never,
    "length_penalty": is_value(1),
    "logits_processors": never,
    "logprob_token_ids": never,
    "n_predict": is_value(-1),
    "n_probs": is_value(0),
    "no_stop_trim": is_value(False),
    "prompt_logprobs": is_value(False),
    "stop_regex": never,
    "structural_tag": never,
    "use_beam_search": is_value(False),
}
"""Fields that no API here honors, and the values of each that ask for nothing."""
_HONORED_ELSEWHERE = (
    *("allowed_token_ids", "ebnf", "grammar", "guided_choice", "guided_grammar", "guided_json", "guided_regex"),
    *(
        "ignore_eos",
        "json_schema",
        "logit_bias",
        "min_tokens",
        "n",
        "regex",
        "response_format",
        "stop",
        "stop_token_ids",
    ),
    *("structured_outputs", "truncate_prompt_tokens"),
)
"""Fields that chats and completions honor, and the other APIs do not have."""


def refused_without(*fields: str, **neutral: Neutral) -> dict[str, Neutral]:
    """Returns what an API refuses that is neither a chat nor a completion. `fields`, `neutral`: its own."""
    elsewhere: dict[str, Any] = dict.fromkeys(_HONORED_ELSEWHERE, never)
    elsewhere |= {"ignore_eos": is_value(False), "min_tokens": is_value(0), "n": is_value(1)}
    return REFUSED | elsewhere | dict.fromkeys(fields, never) | neutral
