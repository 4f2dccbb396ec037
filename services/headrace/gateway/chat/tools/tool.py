"""A tool that a model may call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the client."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of the arguments, which are an object. Empty: there are none."""
    is_strict: bool = False
    """Whether the arguments follow every keyword of the schema, so that a keyword that cannot be followed is an
    error."""

    def definition(self) -> dict[str, Any]:
        """Returns the definition that chat templates read, as in OpenAI's API."""
        function: dict[str, Any] = {"name": self.name}
        function |= {"description": self.description} if self.description else {}
        parameters = self.parameters or {"type": "object", "properties": {}}
        return {"type": "function", "function": function | {"parameters": dict(parameters)}}
