"""Form that an output must have."""

from dataclasses import dataclass

from headrace.v1.generation_pb2 import GrammarKind


@dataclass(frozen=True, slots=True)
class OutputGrammar:
    """Form that the whole output must have."""

    kind: "GrammarKind.ValueType"
    text: str = ""
    parameter: str = ""
    """Field of the client's request that carried the grammar. Empty means `grammar`."""
