"""The table of cases, as a page: `python -m tests.conformance.page` writes it."""

from pathlib import Path

from tests.conformance.cases import CASES
from tests.conformance.claude_code import CLAUDE_CODE
from tests.conformance.codex import CODEX

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
INTRODUCTION = """# What other servers take, and what comes here

Written by `python -m tests.conformance.page`; a test tries each line, and another holds this page to it. The cases are
those of the suites of vLLM, llama.cpp, SGLang and OpenResponses, and of reports about clients, in words of our own.
Single fields of OpenAI's API are in [api-compatibility.md](api-compatibility.md).

| case | peer | here |
|---|---|---|"""


def written() -> str:
    """The page, from the cases."""
    rows = [(case.title, case.peer, case.otherwise or "same") for case in CASES]
    rows += [(f"session of Claude Code: {turn.title}", "Claude Code", "same") for turn in CLAUDE_CODE]
    rows += [(f"session of Codex: {turn.title}", "Codex", "same") for turn in CODEX]
    return "\n".join([INTRODUCTION, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written())
