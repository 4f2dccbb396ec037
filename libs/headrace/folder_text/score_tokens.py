"""Tokens whose logits are the score of a pair of texts, in causal models that answer with one of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import InvalidCheckpoint
from headrace.folder_text.folder_tokenizer import read_tokenizer
from headrace.folder_text.optional_json import read_object

MODULES, LOGIT_SCORE = "modules.json", "LogitScore"
FROM_TOKENS = "classifier_from_token"
"""Key of config.json, with the texts of the tokens for no and for yes."""


@dataclass(frozen=True, slots=True)
class ScoreTokens:
    """Answers of a model that is asked whether a document fits a query."""

    true_id: int
    false_id: int | None
    """Token whose logit is subtracted. None: the score is one logit."""


def read_score_tokens(folder: Path) -> ScoreTokens | None:
    """Reads the tokens from sentence-transformers' module `LogitScore` (5.4 and later), or from the key of config.json
    that vLLM has for Qwen3-Reranker. None: the model scores no pairs so. Raises InvalidCheckpoint."""
    module = _logit_score(folder / MODULES)
    if module is not None:
        found = read_object(folder / module / "config.json")
        true_id, false_id = found.get("true_token_id"), found.get("false_token_id")
    else:
        texts = read_object(folder / "config.json").get(FROM_TOKENS)
        if texts is None:
            return None
        if not (isinstance(texts, list) and len(texts) == 2 and all(isinstance(text, str) for text in texts)):
            raise InvalidCheckpoint(f"{folder / 'config.json'}: {FROM_TOKENS} is {texts!r:.80}, not two texts")
        tokenizer = read_tokenizer(folder)
        false_id, true_id = (tokenizer.token_to_id(text) for text in texts)
        if false_id is None:
            raise InvalidCheckpoint(f"{folder}: the tokenizer has no token {texts[0]!r}, which {FROM_TOKENS} names")
    if not isinstance(true_id, int) or not isinstance(false_id, int | None):
        raise InvalidCheckpoint(f"{folder}: the tokens of scores are {true_id!r:.40} and {false_id!r:.40}, no ids")
    return ScoreTokens(true_id, false_id)


def _logit_score(path: Path) -> str | None:
    """Returns the folder of the module that makes scores, if it is there. Names of folders are untrusted."""
    if not path.is_file():
        return None
    try:
        entries: Any = json.loads(path.read_text(encoding="utf-8"))
        kinds = {str(entry["type"]).rpartition(".")[2]: str(entry.get("path", "")) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error!r}") from error
    name = kinds.get(LOGIT_SCORE)
    if name is not None and (not name or name in {".", ".."} or Path(name).name != name or "\\" in name):
        raise InvalidCheckpoint(f"{path} names {name!r}: only folders in the same folder are read")
    return name
