"""Checks token ids that came from outside: protobuf carries any integer."""

from collections.abc import Collection

from headrace.errors import InvalidRequest

MAX_VOCABULARY_SIZE = 2**31


def check_token_ids(token_ids: Collection[int], vocabulary_size: int, param: str) -> None:
    """Raises InvalidRequest naming the first id that is not in the vocabulary. A size of 0 stands for an unknown one:
    then ids only have to be 0 or more, and fit into 32 bits."""
    size = vocabulary_size or MAX_VOCABULARY_SIZE
    if not token_ids or (min(token_ids) >= 0 and max(token_ids) < size):
        return
    bad = next(token_id for token_id in token_ids if not 0 <= token_id < size)
    raise InvalidRequest(f"token id {bad} is not in the vocabulary (0 to {size - 1})", param=param)
