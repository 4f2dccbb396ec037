"""A file of a tenant, but for its content."""

from typing import Any

import msgspec

INPUT, OUTPUT = "batch", "batch_output"
"""Purposes of files: requests to answer, and answers."""


class StoredFile(msgspec.Struct, kw_only=True, frozen=True):
    """Facts of a file. Times are in seconds since 1970."""

    id: str
    filename: str
    purpose: str
    byte_count: int
    created: int
    expires: int

    def described(self) -> dict[str, Any]:
        """Returns the file as OpenAI's API writes it."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.byte_count,
            "created_at": self.created,
            "expires_at": self.expires,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }
