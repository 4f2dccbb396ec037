"""API keys: `sk-<id>-<secret>`. The id names a key in files and reports; the secret, of 256 bits, is shown once."""

import hashlib
import re
import secrets
import string
from dataclasses import dataclass

PREFIX = "sk"
ID_LENGTH = 10
SECRET_LENGTH = 43
"""Characters of base 62 that hold 256 bits."""
MAX_KEY_LENGTH = 200
"""Maximum length of a text that is read as a key."""
_ID_LETTERS = string.ascii_lowercase + string.digits
_SECRET_LETTERS = string.ascii_letters + string.digits
_FORM = re.compile(r"sk-([a-z0-9]{8,12})-([A-Za-z0-9_-]+)")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key in two parts. Its text is a secret, so `repr` leaves it out."""

    key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"ApiKey({self.key_id!r})"

    @property
    def text(self) -> str:
        """The key as clients send it."""
        return f"{PREFIX}-{self.key_id}-{self.secret}"

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal. A secret of 256 bits needs neither salt nor a slow hash."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def new_key(key_id: str | None = None) -> ApiKey:
    """Makes a key with a new secret, for the given id or a new one."""
    return ApiKey(key_id or _draw(_ID_LETTERS, ID_LENGTH), _draw(_SECRET_LETTERS, SECRET_LENGTH))


def parse_key(text: str) -> ApiKey | None:
    """Returns the key that a text is, or None if it has not the form of one."""
    match = _FORM.fullmatch(text) if len(text) <= MAX_KEY_LENGTH else None
    return ApiKey(match[1], match[2]) if match else None


def _draw(letters: str, length: int) -> str:
    return "".join(secrets.choice(letters) for _ in range(length))
