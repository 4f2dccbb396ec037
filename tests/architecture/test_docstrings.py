"""Docstrings say what they are about: they begin with a verb or a noun, and need no line before them."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

FORBIDDEN = re.compile(r"\s*(?:Of|What|Whose|How|When|Where|Why|Which|Who|Whoever|Whatever)\b")
"""First words that leave a docstring without a subject. "Whether" is allowed: it tells of something true or false."""

UNNATURAL = {
    r"\bnobody('s)?\b": "say which thing is missing: no request, no reader, unused",
    r"\b(some|any)body('s)?\b": "name the party: a client, another writer",
    r"\bevery(body|one)('s)?\b": "all clients, all watchers",
    r"\bwho(m)?ever\b": "name the party: the caller, the holder",
    r"\btold\b": "reported, notified, receives; distinguished",
    r"\bthose (that|which|of which)\b": "repeat the noun, or use an adjective",
    r"\w+ whom\b": "name the party",
    r"(?-i:(^|[.;:] )(Most|Least) \w+)": "Maximum number of, Minimum, Longest time",
    r"\bthe (most|least) (that|of|bytes|tokens|seconds)\b": "the maximum, the minimum",
    r"(?<!`)\blikeliest\b|\bas likely as\b": "most likely, greedy",
    r"\bby itself\b|\bof (its|their) own accord\b": "alone, separately, voluntarily",
    r"\bsurely\b": "certainly, or nothing",
    r"\bgo(es|ing)? on\b|\bwent on\b": "continues, resumes",
    r"\bhears?\b|\bheard\b": "receives, learns",
    r"\bown word\b|\bsays of\b": "reports",
    r"\bsigns? of life\b": "heartbeat, progress",
    r"\bon (the|its|their) way\b": "in flight",
    r"\b(comes?|came) of\b": "result",
    r"\b(is|are) at rest\b|\bstands? still\b": "idle, stalls, hangs",
}
"""Turns of phrase that read translated, and the plain words to use instead."""
HASHED = ("libs/headrace/engine/kernels/", "libs/headrace/engine/triton/")
"""Folders left out: their content is hashed for the record of slow tests, which any other word would make stale."""


def own_sources(root: Path) -> list[Path]:
    paths = [path for name in ("libs", "services", "tests") for path in (root / name).rglob("*.py")]
    return sorted(path for path in paths if "_pb2" not in path.name)


def docstrings(tree: ast.AST) -> dict[int, str]:
    """Docstrings of modules, classes and functions, and literals under assignments, by line."""
    return {
        node.lineno: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def comments(source: str) -> dict[int, str]:
    """Comments by first line; lines that follow each other are one comment."""
    found: dict[int, str] = {}
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            first = first if line == last + 1 else line
            last = line
            found[first] = f"{found.get(first, '')} {token.string.lstrip('#').strip()}".strip()
    return found


def unnatural(source: str) -> list[str]:
    """Lines of the docstrings and comments that hold an unnatural phrase, each with the phrase and better words."""
    texts = [*docstrings(ast.parse(source)).items(), *comments(source).items()]
    return [
        f"{line}: {match[0].strip()!r}: {better}"
        for line, text in texts
        for pattern, better in UNNATURAL.items()
        if (match := re.search(pattern, " ".join(text.split()), re.IGNORECASE))
    ]


def test_docstrings_begin_with_a_verb_or_a_noun(root: Path) -> None:
    found = {path.relative_to(root): docstrings(ast.parse(path.read_text())) for path in own_sources(root)}
    assert sum(map(len, found.values())) > 1000
    offenders = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path, by_line in found.items()
        for line, text in by_line.items()
        if FORBIDDEN.match(text)
    ]
    assert offenders == []


def test_all_kinds_of_docstrings_are_found() -> None:
    source = '"""A."""\nclass C:\n    """B."""\n    x = 1\n    """C."""\n    async def f(self):\n        """Of it."""\n'
    assert docstrings(ast.parse(source)) == {1: "A.", 3: "B.", 5: "C.", 7: "Of it."}
    assert [text for text in docstrings(ast.parse(source)).values() if FORBIDDEN.match(text)] == ["Of it."]


def test_docstrings_read_naturally(root: Path) -> None:
    paths = [path for top in ("libs", "services") for path in sorted((root / top / "headrace").rglob("*.py"))]
    names = {path.relative_to(root).as_posix(): path for path in paths}
    read = {name: path for name, path in names.items() if "/v1/" not in name and not name.startswith(HASHED)}
    assert len(read) > 500
    assert [f"{name}:{found}" for name, path in read.items() for found in unnatural(path.read_text())] == []


@pytest.mark.parametrize(
    ("pattern", "planted"),
    list(
        zip(
            UNNATURAL,
            [
                "A file that nobody uses.",
                "Ends when somebody asks.",
                "Lets everyone in.",
                "Answers whoever asks.",
                "Clients are told to retry.",
                "Drops those that are late.",
                "The tenant for whom it runs.",
                "Requests of a queue. Most tokens of a step.",
                "Returns the most that a key allows.",
                "Takes the likeliest token.",
                "Computes each by itself.",
                "Refuses what surely does not fit.",
                "Goes on after a loss.",
                "Everything that a worker hears.",
                "Returns the server's own word.",
                "Waits for a sign of life.",
                "Counts requests on their way.",
                "Returns what came of it.",
                "Ends a stream that stands still.",
            ],
            strict=True,
        )
    ),
)
def test_unnatural_phrases_are_found(pattern: str, planted: str) -> None:
    better = UNNATURAL[pattern]
    first, _, rest = planted.partition(" ")
    wrapped = f"{first}\n    # {rest}"
    assert [line for line in unnatural(f'x = 1\n"""{planted}"""\n') if line.endswith(better)]
    assert [line for line in unnatural(f"if True:\n    # {wrapped}\n    x = 1\n") if line.endswith(better)]
    assert unnatural(f'x = "{planted}"\n') == []
