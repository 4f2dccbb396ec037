"""`make test-emulated` and its record: tests of what is slow and changes seldom, marked `emulated`.

They run kernels as other processors, compilers and GPUs would. `emulated_record.json` names the inputs, by a hash, at
which the tests of each part last passed whole. The hash is that of contents alone, equal on all machines.

    python -m tests.emulated_record             runs all, and writes the record of the parts that passed whole
    python -m tests.emulated_record --changed   runs the parts whose inputs have changed since, and says which
"""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path("tests/emulated_record.json")
PINS = Path("constraints.txt")
SUFFIXES = frozenset({".py", ".h", ".cpp"})
SECONDS = 3000
"""Patience with the tests of one part."""


@dataclass(frozen=True)
class Part:
    """Tests that are run again together, because they read the same sources."""

    sources: tuple[str, ...]
    """Files, and folders with all that they hold."""
    tests: str
    """Folder of the tests. What they import of `tests` counts too."""
    packages: tuple[str, ...]
    """Packages whose pinned versions count."""
    left_out: tuple[str, ...] = ()
    """Files in the folder of the tests that are tests of `make test`, and read much more."""


PARTS = {
    "kernels": Part(
        ("libs/headrace/engine/kernels", "hatch_build.py"), "tests/libs/engine/kernels", ("numpy", "torch", "gguf")
    ),
    "triton": Part(
        ("libs/headrace/engine/triton",),
        "tests/libs/engine/triton",
        ("numpy", "torch", "triton"),
        ("tests/libs/engine/triton/test_five_services.py",),
    ),
}
"""Python outside these folders is the same on every instruction set: `make test` runs it on those of its machine."""


def fingerprint(root: Path, part: Part) -> str:
    """Hash of all that decides how the part's tests end: names and contents of files, and versions of packages."""
    digest = hashlib.sha256()
    for path in sorted(inputs(root, part), key=lambda path: path.relative_to(root).as_posix()):
        # A checkout on Windows may have other line ends.
        content = path.read_bytes().replace(b"\r\n", b"\n")
        for each in (path.relative_to(root).as_posix().encode(), content):
            digest.update(b"%d:%b" % (len(each), each))
    for name, version in pinned(root, part.packages):
        digest.update(f"{name}=={version}\n".encode())
    return digest.hexdigest()


def inputs(root: Path, part: Part) -> set[Path]:
    """Files that the part's tests read."""
    sources = {file for each in part.sources for file in files_in(root / each)}
    tests = files_in(root / part.tests) - {root / each for each in part.left_out}
    return sources | with_imports(root, tests)


def files_in(path: Path) -> set[Path]:
    found = [path] if path.is_file() else path.rglob("*")
    return {each for each in found if each.is_file() and each.suffix in SUFFIXES}


def with_imports(root: Path, files: Iterable[Path]) -> set[Path]:
    """Adds to files of tests those of `tests` that they import, and so on."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            names = imported(path.read_text())
            waiting.extend(each for name in names if (each := root / f"{name.replace('.', '/')}.py").is_file())
    return found


@cache
def imported(source: str) -> Sequence[str]:
    """Names of modules that a source may import of `tests`."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += (each.name for each in node.names if each.name.startswith("tests."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tests":
            found += (str(node.module), *(f"{node.module}.{each.name}" for each in node.names))
    return found


def pinned(root: Path, packages: Iterable[str]) -> list[tuple[str, str]]:
    """Versions that constraints.txt names."""
    found = dict(re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)", (root / PINS).read_text()))
    return [(name, found.get(name, "")) for name in sorted(packages)]


def read_record(root: Path) -> dict[str, dict[str, str]]:
    """Entry of each part that ever passed whole."""
    path = root / RECORD
    return dict(json.loads(path.read_text())) if path.exists() else {}


def changed(root: Path) -> list[str]:
    """Names of the parts whose inputs are not those at which they last passed."""
    record = read_record(root)
    return [name for name, part in PARTS.items() if record.get(name, {}).get("inputs") != fingerprint(root, part)]


def announce(root: Path, stale: Iterable[str]) -> None:
    """Says of each part whether it runs again."""
    record, stale = read_record(root), set(stale)
    for name in PARTS:
        passed = record.get(name, {}).get("passed", "never")
        what = "to run, for the inputs are others now" if name in stale else "the record matches: skipped"
        print(f"emulated tests, {name}: last passed whole {passed}; {what}", flush=True)


def run(root: Path, names: Iterable[str]) -> int:
    """Runs the tests of some parts. Returns 1 if one fails."""
    failed = []
    for name in names:
        print(f"emulated tests, {name}", flush=True)
        before, report = fingerprint(root, PARTS[name]), root / "build" / f"emulated-{name}.xml"
        report.parent.mkdir(exist_ok=True)
        if run_tests(root, PARTS[name], report):
            failed.append(name)
        elif skipped := count_skipped(report):
            print(f"emulated tests, {name}: {skipped} cannot run on this machine (see above), so the record stays")
        elif fingerprint(root, PARTS[name]) == before:
            write_record(root, name, before)
            print(f"emulated tests, {name}: passed whole; commit {RECORD}")
        else:
            print(f"emulated tests, {name}: a file changed while they ran, so the record stays")
    if failed:
        print(f"emulated tests failed: {', '.join(failed)}")
    return 1 if failed else 0


def run_tests(root: Path, part: Part, report: Path) -> int:
    """Returns the code that pytest ends with."""
    processes = os.environ.get("TEST_PROCESSES", "2")
    command = [sys.executable, "-m", "pytest", "-q", "-m", "emulated", f"--junit-xml={report}"]
    command += ["--numprocesses", processes, "--dist", "loadfile", part.tests]
    return subprocess.run(command, cwd=root, timeout=SECONDS).returncode


def count_skipped(report: Path) -> int:
    return sum(map(int, re.findall(r'<testsuite [^>]*\bskipped="(\d+)"', report.read_text())))


def write_record(root: Path, name: str, inputs_hash: str) -> None:
    entry = {"inputs": inputs_hash, "passed": datetime.now(UTC).date().isoformat()}
    record = {**read_record(root), name: entry}
    (root / RECORD).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


def main(arguments: list[str]) -> int:
    """Returns the code that the process ends with."""
    if arguments not in ([], ["--changed"]):
        print(__doc__)
        return 2
    parts = changed(ROOT) if arguments else list(PARTS)
    announce(ROOT, parts)
    return run(ROOT, parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
