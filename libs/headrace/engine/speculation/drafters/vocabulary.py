"""Checks that two models have the same token for each id: with another vocabulary, drafts would be nonsense."""

import json
from pathlib import Path

from headrace.errors.tree import ConfigError, InvalidCheckpoint

FILE = "tokenizer.json"


def check_same_vocabulary(folder: Path, draft_folder: Path) -> None:
    """Raises ConfigError naming the first token id that differs between the models in the two folders."""
    tokens, draft_tokens = _read(folder), _read(draft_folder)
    for token_id in sorted(tokens.keys() | draft_tokens.keys()):
        meant, drafted = tokens.get(token_id), draft_tokens.get(token_id)
        if meant != drafted:
            raise ConfigError(
                f"the draft model in {draft_folder} has another vocabulary: token {token_id} is {drafted!r} there and "
                f"{meant!r} in {folder}; choose a draft model of the same family"
            )


def _read(folder: Path) -> dict[int, str]:
    """Reads the token of each id."""
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(f"{path} is missing: drafting with a draft model needs it, to compare the vocabularies")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        vocabulary = content["model"]["vocab"]
        pairs = (
            vocabulary.items()
            if isinstance(vocabulary, dict)
            else ((entry[0], i) for i, entry in enumerate(vocabulary))
        )
        tokens = {int(token_id): str(token) for token, token_id in pairs}
        return tokens | {int(added["id"]): str(added["content"]) for added in content.get("added_tokens", [])}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidCheckpoint(f"{path} is not a tokenizer: {error!r}") from None
