"""Hooks of schemathesis: requests reach a model that is there, and ask it for little; answers are in our own words."""

import re
from typing import Any

import schemathesis

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
MAX_TOKENS = 4
_LIBRARY_WORDS = re.compile(r"input should|pydantic|extra inputs|validation error|traceback", re.IGNORECASE)


@schemathesis.hook  # type: ignore[untyped-decorator]
def map_body(context: Any, body: Any) -> Any:
    """Names the bundled model wherever a model is named."""
    if isinstance(body, dict) and isinstance(body.get("model"), str):
        body["model"] = "headrace-demo"
        for name in LIMITS:
            if isinstance(body.get(name), int) and body[name] > MAX_TOKENS:
                body[name] = MAX_TOKENS
    return body


@schemathesis.check  # type: ignore[untyped-decorator]
def own_words(context: Any, response: Any, case: Any) -> None:
    """Checks that no text of a library is shown raw."""
    found = _LIBRARY_WORDS.search(response.text) if response.status_code >= 400 else None
    assert found is None, f"the answer shows a library's text: {response.text}"
