"""One word for one thing: `docs/glossary.md` says which, and nothing else is written."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of, tree_of

KEYS_OF_OTHERS = re.compile(
    r"""["'](type_|draft_)?vocab_size(_per_layer_input)?["']|["'`]max_model_len["'`]|get_vocab_size|n_vocab"""
)
"""Names that files and libraries of others give to what is called otherwise here."""
UNREAD = ("/v1/", "/engine/vllm/", "/demo_model/", "docs/results/", "docs/glossary.md", "test_glossary.py")
"""Generated code, what is about other subjects, reports of their day, and the list itself."""


def table(root: Path, heading: str) -> list[list[str]]:
    """The rows of the glossary's table below a heading."""
    section = (root / "docs" / "glossary.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def written(root: Path) -> list[Path]:
    """Everything that people read: code of the product, and documents."""
    code = [
        path for top in ("libs", "services") for path in (root / top).rglob("*") if path.suffix in (".py", ".h", ".cpp")
    ]
    documents = [root / "README.md", *(root / "docs").rglob("*.md")]
    found = [path for path in (*code, *documents) if not any(part in path.as_posix() for part in UNREAD)]
    assert len(found) > 300
    return found


def uses(words: list[str], text: str) -> list[tuple[int, str]]:
    """Numbers of the lines that use one of the words, in any form of it, each with the word."""
    either = "|".join(map(re.escape, words))
    form = re.compile(rf"(?<![A-Za-z])_?({either})(s|es|ed|ing)?(?![A-Za-z])", re.IGNORECASE)
    own = KEYS_OF_OTHERS.sub("", text)
    if form.search(own) is None:
        return []
    return [(number, match[1]) for number, line in enumerate(own.splitlines(), 1) for match in form.finditer(line)]


def test_words_that_are_not_used_are_not_used(root: Path) -> None:
    words = [row[0] for row in table(root, "Words that are not used")]
    assert len(words) > 5
    wrong = [
        f"{path.relative_to(root)}:{number} {word}"
        for path in written(root)
        for number, word in uses(words, path.read_text())
    ]
    assert wrong == []


def test_a_name_of_a_module_means_one_thing(root: Path) -> None:
    shared = {name for row in table(root, "Modules of one name") for name in row[0].split(", ")}
    places: dict[str, list[str]] = defaultdict(list)
    for path in written(root):
        if path.suffix == ".py" and not path.name.startswith("__"):
            places[path.stem].append(path.relative_to(root).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in shared} == {}


@pytest.mark.parametrize(
    "text", ["in any company", "# Guesses ahead", "a whole number", "max_model_len = 3", "per_guess(1)"]
)
def test_a_word_is_found_in_any_form(root: Path, text: str) -> None:
    assert uses([row[0] for row in table(root, "Words that are not used")], text)


def test_keys_of_others_are_theirs() -> None:
    words = ["anew", "vocab_size"]
    assert uses(words, 'raw["vocab_size"]') == []
    assert uses(words, "raw\nspec.vocab_size") == [(2, "vocab_size")]


def test_a_name_of_a_class_means_one_thing(root: Path) -> None:
    shared = {name for row in table(root, "Classes of one name") for name in row[0].split(", ")}
    places: dict[str, list[str]] = defaultdict(list)
    for path in written(root):
        if path.suffix == ".py":
            for node in nodes_of(path, ast.ClassDef):
                if not node.name.startswith("_"):
                    places[node.name].append(path.relative_to(root).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in shared} == {}
    assert shared <= twice.keys(), "the list names classes that stand once"


BOUND = re.compile(r"_?(MOST|LEAST|LONGEST|SHORTEST|LARGEST|SMALLEST|HIGHEST|LOWEST)(_[A-Z0-9_]+)?")
"""Constants that would be MAX_… or MIN_…."""
HASHED = "libs/headrace/engine/kernels/"
"""Room whose sources are hashed by the record of emulated tests, and renamed when they change for another reason."""


def bounds_of(module: ast.Module) -> list[str]:
    """Lists constants of a module that name a bound by another word than MAX and MIN."""
    targets = [
        part.id
        for node in module.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for part in ast.walk(target)
        if isinstance(part, ast.Name)
    ]
    return [name for name in targets if BOUND.fullmatch(name)]


def test_bounds_are_called_max_and_min(root: Path) -> None:
    assert bounds_of(ast.parse("MOST, B = 1, 2\n_LEAST_WIDTH: int = 3\nMAX_ROWS = 4\n")) == ["MOST", "_LEAST_WIDTH"]
    found = {
        place: names
        for top in ("libs", "services")
        for path in sorted((root / top / "headrace").rglob("*.py"))
        if not (place := path.relative_to(root).as_posix()).startswith(HASHED)
        if (names := bounds_of(tree_of(path)))
    }
    assert found == {}
