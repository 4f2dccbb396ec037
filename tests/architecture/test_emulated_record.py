"""The record of `make test-emulated`: whatever decides how those tests end changes its hash, and nothing else does."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests import emulated_record
from tests.emulated_record import PARTS, RECORD, Part, changed, files_in, fingerprint, inputs, write_record

MARKED = re.compile(r"pytest\.mark\.emulated\b")
KERNELS = PARTS["kernels"]


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A copy of all inputs, and of the pinned versions."""
    for part in PARTS.values():
        for path in inputs(root, part):
            target = tmp_path / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.copyfile(root / "constraints.txt", tmp_path / "constraints.txt")
    return tmp_path


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_a_copy_elsewhere_has_the_same_hash(root: Path, copy: Path) -> None:
    (copy / "libs/headrace/engine/kernels/_kernels.so").write_bytes(b"compiled")
    (copy / "libs/headrace/engine/kernels/src/isa.cpp~").write_text("of an editor")
    assert [fingerprint(copy, part) for part in PARTS.values()] == [fingerprint(root, part) for part in PARTS.values()]


def test_line_ends_of_a_checkout_do_not_count(root: Path, copy: Path) -> None:
    source = copy / "libs/headrace/engine/kernels/src/isa.cpp"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert fingerprint(copy, KERNELS) == fingerprint(root, KERNELS)


@pytest.mark.parametrize(
    ("part", "name", "text"),
    [
        ("kernels", "libs/headrace/engine/kernels/src/rounding.h", "\n"),
        ("kernels", "libs/headrace/engine/kernels/src/pool.cpp", "int more;\n"),
        ("kernels", "libs/headrace/engine/kernels/choice/candidates.py", "MORE = 1\n"),
        ("kernels", "hatch_build.py", "FLAGS += ('-O0',)\n"),
        ("kernels", "tests/libs/engine/kernels/emulated_arm/serve.cpp", "int more;\n"),
        ("kernels", "tests/libs/engine/kernels/test_arm_emulated.py", "MORE = 1\n"),
        ("kernels", "tests/libs/engine/kernels/sequence_attention.py", "MORE = 1\n"),
        ("kernels", "tests/unpacked_packages.py", "MORE = 1\n"),
        ("triton", "libs/headrace/engine/triton/products/quantized_matmul.py", "MORE = 1\n"),
        ("triton", "tests/libs/engine/triton/interpreter.py", "MORE = 1\n"),
    ],
)
def test_a_changed_input_changes_the_hash_of_its_part(root: Path, copy: Path, part: str, name: str, text: str) -> None:
    append(copy / name, text)
    assert [each for each in PARTS if fingerprint(copy, PARTS[each]) != fingerprint(root, PARTS[each])] == [part]


def test_a_new_source_changes_the_hash(root: Path, copy: Path) -> None:
    (copy / "libs/headrace/engine/kernels/src/more.h").write_text("")
    assert fingerprint(copy, KERNELS) != fingerprint(root, KERNELS)


def test_another_name_changes_the_hash(root: Path, copy: Path) -> None:
    source = copy / "libs/headrace/engine/kernels/src/rows.h"
    source.rename(source.with_name("lines.h"))
    assert fingerprint(copy, KERNELS) != fingerprint(root, KERNELS)


def test_another_version_of_a_package_that_computes_changes_the_hash(root: Path, copy: Path) -> None:
    constraints = copy / "constraints.txt"
    text = constraints.read_text()
    constraints.write_text(re.sub(r"(?m)^mypy==.*$", "mypy==0.1", text))
    assert fingerprint(copy, KERNELS) == fingerprint(root, KERNELS)
    constraints.write_text(re.sub(r"(?m)^torch==[\w.]+", "torch==0.1", text))
    assert fingerprint(copy, KERNELS) != fingerprint(root, KERNELS)


def test_every_marked_test_belongs_to_a_part_and_every_part_has_some(root: Path) -> None:
    marked = [path for path in files_in(root / "tests/libs") if MARKED.search(path.read_text())]
    parts = {path: [name for name, part in PARTS.items() if (root / part.tests) in path.parents] for path in marked}
    assert all(len(names) == 1 for names in parts.values()), parts
    assert {names[0] for names in parts.values()} == set(PARTS)


def test_every_source_of_a_part_is_there(root: Path) -> None:
    assert [each for part in PARTS.values() for each in (*part.sources, part.tests) if not files_in(root / each)] == []
    assert all(len(inputs(root, part)) > 20 for part in PARTS.values())


def test_a_part_is_run_until_the_record_has_its_hash(copy: Path) -> None:
    assert changed(copy) == list(PARTS)
    (copy / RECORD).parent.mkdir(exist_ok=True)
    for name, part in PARTS.items():
        write_record(copy, name, fingerprint(copy, part))
    assert changed(copy) == []
    append(copy / "libs/headrace/engine/triton/split_sum.py", "MORE = 1\n")
    assert changed(copy) == ["triton"]


@pytest.mark.parametrize(
    ("body", "code", "is_recorded"),
    [("assert True", 0, True), ("assert False", 1, False), ("pytest.skip('no zork; to run it: wait')", 0, False)],
)
@pytest.mark.process
@pytest.mark.slow
def test_the_record_is_written_where_all_passed_and_none_was_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, code: int, is_recorded: bool
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "constraints.txt").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    emulated: x\n")
    (tmp_path / "tests/test_x.py").write_text(
        f"import pytest\n\n\n@pytest.mark.emulated\ndef test_x():\n    {body}\n\n\ndef test_y():\n    raise OSError\n"
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setenv("TEST_PROCESSES", "1")
    monkeypatch.setitem(emulated_record.PARTS, "x", Part((), "tests", ()))
    assert emulated_record.run(tmp_path, ["x"]) == code
    assert "x" in json.loads((tmp_path / RECORD).read_text()) if is_recorded else not (tmp_path / RECORD).exists()


def test_ci_compares_after_the_tests(root: Path) -> None:
    commands = [line for line in (root / ".ci/run").read_text().splitlines() if line.startswith("make")]
    assert commands == ["make test", "make test-deploy", "make test-emulated CHANGED=1"]
