"""Use that an answer may, or must, make of tools."""

from dataclasses import dataclass

from headrace.gateway.chat.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Tools that an answer may call, at least one."""

    tools: tuple[Tool, ...]
    is_required: bool = False
    """Whether the answer must be calls, and nothing else."""
    allows_several: bool = True
    """Whether one answer may call more than once."""
