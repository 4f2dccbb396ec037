"""The files of the console: which there are, what they load, and what they must not hold."""

import re
from pathlib import Path

import pytest

from headrace.gateway.console.console_files import FOLDER, PAGE, ConsoleFiles

MAX_BYTES = 400_000
MAX_LINES = 300
INLINE = re.compile(r"""<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:""", re.IGNORECASE)
IMPORT = re.compile(r"""from "\./([\w.]+)";""")
TEXT_SINKS = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")


@pytest.fixture(scope="module")
def files() -> ConsoleFiles:
    return ConsoleFiles()


def test_every_file_of_the_folder_is_in_the_table(files: ConsoleFiles) -> None:
    assert {PAGE, *files.names} == {path.name for path in FOLDER.iterdir()}
    assert all(files.find(name) for name in files.names)
    assert len({file.etag for name in files.names if (file := files.find(name))}) == len(files.names)


def test_files_added_later_are_unknown(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text("<p>")
    files = ConsoleFiles(tmp_path)
    (tmp_path / "late.js").write_text("")
    for name in ("late.js", PAGE, "", ".", "..", "../console_files.py", "/etc/passwd", f"static/{PAGE}"):
        assert files.find(name) is None


def test_the_policy_would_refuse_nothing_of_the_page(files: ConsoleFiles) -> None:
    page = files.page.content.decode()
    assert INLINE.findall(page) == []
    loaded = re.findall(r"""(?:src|href)="(?!#)([^"]+)\"""", page)
    assert len(loaded) >= 4
    assert [name for name in loaded if files.find(name.removeprefix("console/")) is None] == ["docs"]


def test_modules_import_each_other_and_nothing_else(files: ConsoleFiles) -> None:
    scripts = [path for path in FOLDER.iterdir() if path.suffix == ".js"]
    assert len(scripts) > 10
    for path in scripts:
        text = path.read_text()
        assert text.count("import {") == len(IMPORT.findall(text)), path.name
        assert [name for name in IMPORT.findall(text) if files.find(name) is None] == [], path.name


def test_text_never_becomes_markup() -> None:
    """Models, tenants and tools write what is shown."""
    found = [(path.name, sink) for path in FOLDER.glob("*.js") for sink in TEXT_SINKS if sink in path.read_text()]
    assert found == []


def test_nothing_names_another_host() -> None:
    found = [
        (path.name, address)
        for path in FOLDER.iterdir()
        for address in re.findall(r"""(?:https?:)?//[\w.-]+\.\w+""", path.read_text())
        if not address.endswith("www.w3.org")
    ]
    assert found == []


def test_the_page_is_light_and_its_files_are_short() -> None:
    contents = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert sum(len(content.encode()) for content in contents.values()) <= MAX_BYTES
    assert {name: content.count("\n") for name, content in contents.items() if content.count("\n") > MAX_LINES} == {}
