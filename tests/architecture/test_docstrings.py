"""Docstrings say what they are about: they begin with a verb or a noun, and need no line before them."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of

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
ANY_UNNATURAL = re.compile("|".join(f"(?:{pattern})" for pattern in UNNATURAL), re.IGNORECASE)
"""Any of them: a text without such a phrase is looked through once."""
COMMENT_OR_STRING = re.compile(
    r"""#[^\n]*|(\"{3}|'{3})(?:\\.|[^\\])*?\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL
)
"""All that may hold a # in a source of Python 3.11: outside of strings, nothing but a comment does."""
HASHED = ("libs/headrace/engine/kernels/", "libs/headrace/engine/triton/")
"""Folders left out: their content is hashed for the record of slow tests, which any other word would make stale."""


def own_sources(root: Path) -> list[Path]:
    paths = [path for name in ("libs", "services", "tests") for path in (root / name).rglob("*.py")]
    return sorted(path for path in paths if "_pb2" not in path.name)


def docstrings(path: Path) -> dict[int, str]:
    """Docstrings of modules, classes and functions, and literals under assignments, by line."""
    return {
        node.lineno: node.value.value
        for node in nodes_of(path, ast.Expr)
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


def comments(source: str) -> dict[int, str]:
    """Comments by first line; lines that follow each other are one comment."""
    found: dict[int, str] = {}
    first = last = 0
    for line, comment in comment_lines(source):
        first = first if line == last + 1 else line
        last = line
        found[first] = f"{found.get(first, '')} {comment.lstrip('#').strip()}".strip()
    return found


def comment_lines(source: str) -> Iterator[tuple[int, str]]:
    """Numbers and comments of the lines that have one, as tokenize finds them in nine times as long."""
    line, seen = 1, 0
    for match in COMMENT_OR_STRING.finditer(source):
        if match[0].startswith("#"):
            line, seen = line + source.count("\n", seen, match.start()), match.start()
            yield line, match[0]


def unnatural(path: Path) -> list[str]:
    """Lines of the docstrings and comments that hold an unnatural phrase, each with the phrase and better words."""
    texts = [*docstrings(path).items(), *comments(path.read_text()).items()]
    return [
        f"{line}: {match[0].strip()!r}: {better}"
        for line, text in ((line, " ".join(text.split())) for line, text in texts)
        if ANY_UNNATURAL.search(text)
        for pattern, better in UNNATURAL.items()
        if (match := re.search(pattern, text, re.IGNORECASE))
    ]


def test_docstrings_begin_with_a_verb_or_a_noun(root: Path) -> None:
    found = {path.relative_to(root): docstrings(path) for path in own_sources(root)}
    assert sum(map(len, found.values())) > 1000
    offenders = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path, by_line in found.items()
        for line, text in by_line.items()
        if FORBIDDEN.match(text)
    ]
    assert offenders == []


def test_all_kinds_of_docstrings_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    source = '"""A."""\nclass C:\n    """B."""\n    x = 1\n    """C."""\n    async def f(self):\n        """Of it."""\n'
    path.write_text(source)
    assert docstrings(path) == {1: "A.", 3: "B.", 5: "C.", 7: "Of it."}
    assert [text for text in docstrings(path).values() if FORBIDDEN.match(text)] == ["Of it."]


def test_comments_are_those_that_tokenize_finds(root: Path) -> None:
    planted = "\n".join(
        (
            'x = "#" # a',
            "y = '\\'#' + rb'\\\\' # b \"",
            'z = f"""\\""" # \n""" \\',
            "    + '\\\n#'  # c '''",
            "'''#''''#'## d\n# e",
        )
    )
    sources = [planted, *(path.read_text() for path in (root / "tests/architecture").glob("*.py"))]
    for source in sources:
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        found = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
        assert list(comment_lines(source)) == found


def test_docstrings_read_naturally(root: Path) -> None:
    paths = [path for top in ("libs", "services") for path in sorted((root / top / "headrace").rglob("*.py"))]
    names = {path.relative_to(root).as_posix(): path for path in paths}
    read = {name: path for name, path in names.items() if "/v1/" not in name and not name.startswith(HASHED)}
    assert len(read) > 500
    assert [f"{name}:{found}" for name, path in read.items() for found in unnatural(path)] == []


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
def test_unnatural_phrases_are_found(tmp_path: Path, pattern: str, planted: str) -> None:
    def unnatural_in(source: str) -> list[str]:
        path = tmp_path / f"module_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(source)
        return unnatural(path)

    better = UNNATURAL[pattern]
    first, _, rest = planted.partition(" ")
    wrapped = f"{first}\n    # {rest}"
    assert [line for line in unnatural_in(f'x = 1\n"""{planted}"""\n') if line.endswith(better)]
    assert [line for line in unnatural_in(f"if True:\n    # {wrapped}\n    x = 1\n") if line.endswith(better)]
    assert unnatural_in(f'x = "{planted}"\n') == []
