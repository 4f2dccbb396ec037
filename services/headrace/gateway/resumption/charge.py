"""Tokens that the account of a key has paid."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Charge:
    """Tokens of one stream that earlier requests for it have paid."""

    prompt_token_count: int = 0
    output_token_count: int = 0

    def __add__(self, other: "Charge") -> "Charge":
        return Charge(
            self.prompt_token_count + other.prompt_token_count, self.output_token_count + other.output_token_count
        )


NOTHING = Charge()
