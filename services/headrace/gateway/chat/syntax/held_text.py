"""Text that comes in pieces and is wanted whole at its end."""


class HeldText:
    """Collects pieces. A string that grows would be copied for each of them."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def take(self) -> str:
        """Returns the text so far, and holds nothing from now on."""
        text = "".join(self._pieces)
        self._pieces.clear()
        return text
