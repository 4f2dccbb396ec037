"""Secret by which services of one platform know each other: a bearer token (RFC 6750) in the metadata of calls."""

KEY = "authorization"


def bearer(credential: str) -> str:
    """Returns the value of the metadata entry `KEY`."""
    return f"Bearer {credential}"
