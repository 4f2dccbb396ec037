"""Record of one request in the ledger of usage: a line of JSON."""

import msgspec


class UsageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that one request used."""

    time: float
    """End of the request, in seconds since 1970."""
    request_id: str
    """Id of the request, unique in the platform: the id of the answer without what stands before it."""
    key: str
    """Id of the API key; empty where no key is needed."""
    tenant: str
    model: str
    prompt_tokens: int
    cached_tokens: int
    """Tokens of the prompt that were in the prefix cache."""
    cached_tokens_from: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Those tokens by the place that had their KV: memory, disk, worker or store. Unset where there were none."""
    output_tokens: int
    outcome: str
    """finished, or the code of the error that ended the request."""
    seconds: float
    """Time from accept to the end."""
    cost: float = 0.0
    """Price of the time of accelerators, in the currency of the workers' prices per hour. 0: not known, or nothing was
    computed."""
    hash_ids: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Keyed hashes of the prompt's blocks of 512 tokens, where the gateway's settings ask for them."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(UsageRecord).decode


def to_line(record: UsageRecord) -> bytes:
    """Returns the record as one line, with its line feed."""
    return _encode(record) + b"\n"


def from_line(line: bytes) -> UsageRecord | None:
    """Returns the record that a whole line holds, or None: a process may have ended in the middle of a line."""
    if not line.endswith(b"\n"):
        return None
    try:
        return _decode(line)
    except msgspec.DecodeError:
        return None
