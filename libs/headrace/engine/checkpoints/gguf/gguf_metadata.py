"""The metadata of a GGUF file, validated because files are untrusted."""

from pathlib import Path
from typing import Any

from headrace.errors.tree import InvalidCheckpoint
from headrace.gguf_text.gguf_ends import end_token_ids
from headrace.gguf_text.gguf_header import GgufHeader


class GgufMetadata:
    """Values by key. Raises InvalidCheckpoint naming the key for numbers that are missing or not numeric."""

    def __init__(self, path: Path, header: GgufHeader) -> None:
        self.path = path
        self._header = header
        self.architecture = str(self.get("general.architecture", "unknown"))

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value as stored in the file."""
        try:
            return self._header.get(key, default)
        except (ValueError, KeyError, IndexError, TypeError, UnicodeDecodeError) as error:
            raise InvalidCheckpoint(f"{self.path}: metadata {key} cannot be read: {error!r}") from error

    def has(self, key: str) -> bool:
        """Whether the architecture has its own value for `key`."""
        return self.get(f"{self.architecture}.{key}") is not None

    def text(self, key: str, default: str) -> str:
        return str(self.get(f"{self.architecture}.{key}", default))

    def flag(self, key: str, *, default: bool) -> bool:
        """Reads a truth value of the architecture, with keys as in `integer`."""
        return bool(self.get(f"{self.architecture}.{key}", default))

    def integer(self, key: str, default: int | None = None) -> int:
        """Reads an integer of the architecture: llama.block_count for block_count."""
        return int(self.number(key, default))

    def integers(self, key: str, default: int | None = None) -> list[int]:
        """Reads integers of the architecture that differ by layer. One that all layers share is a list of one."""
        values = self.get(f"{self.architecture}.{key}")
        if not isinstance(values, list):
            return [self.integer(key, default)]
        if not values or not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise InvalidCheckpoint(f"{self.path}: metadata {self.architecture}.{key} is no list of integers")
        return values

    def numbers(self, key: str) -> list[float]:
        """Reads a list of numbers, or of truth values, of the architecture."""
        values = self.get(f"{self.architecture}.{key}")
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise InvalidCheckpoint(f"{self.path}: metadata {self.architecture}.{key} is no list of numbers")
        return values

    def number(self, key: str, default: float | None = None) -> float:
        """Reads a number of the architecture, with keys as in `integer`."""
        name = f"{self.architecture}.{key}"
        return self._checked(name, self.get(name, default))

    def layer_number(self, key: str, index: int) -> float:
        """Reads the number of one layer from a list for all of them, or the one that they share. `key` is the same for
        all architectures."""
        value = self.get(key)
        if isinstance(value, list):
            layer_count = self.integer("block_count")
            if len(value) != layer_count:
                raise InvalidCheckpoint(
                    f"{self.path}: metadata {key} has {len(value)} numbers for {layer_count} layers"
                )
            value = value[index]
        return self._checked(key, value)

    def _checked(self, name: str, value: Any) -> float:
        """Returns a finite number. Raises InvalidCheckpoint for anything else."""
        if value is None:
            raise InvalidCheckpoint(f"{self.path} has no metadata {name}")
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or value != value
            or abs(value) == float("inf")
        ):
            raise InvalidCheckpoint(f"{self.path}: metadata {name} is {value!r:.80}, not a number")
        return value

    @property
    def eos_token_ids(self) -> list[int]:
        """Returns the ids of all tokens that end a text or a turn."""
        try:
            return end_token_ids(self._header)
        except (ValueError, TypeError) as error:
            raise InvalidCheckpoint(f"{self.path}: metadata {error}") from None
