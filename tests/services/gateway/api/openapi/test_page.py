"""The description as a page: links that lead somewhere, and nothing that is markup by chance."""

import re
from typing import Any

import pytest

from headrace.gateway.api.openapi.document import document
from headrace.gateway.api.openapi.document_routes import DocumentRoutes
from headrace.gateway.api.openapi.operation import Operation
from headrace.gateway.api.openapi.operations import OPERATIONS
from headrace.gateway.api.openapi.page import page
from headrace.gateway.api.openapi.schema_fields import described_list, type_of
from headrace.gateway.console.console_files import ConsoleFiles


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(OPERATIONS)


@pytest.fixture(scope="module")
def written(described: dict[str, Any]) -> str:
    return page(described)


def test_each_link_of_the_page_leads_to_a_place_in_it(written: str) -> None:
    targets = re.findall(r'href="#([^"]+)"', written)
    ids = re.findall(r'\bid="([^"]+)"', written)
    assert len(ids) == len(set(ids))
    assert len(targets) > 30
    assert set(targets) <= set(ids)


def test_it_has_the_console_around_it(written: str) -> None:
    assert [name for name in ("chat", "requests", "fleet") if f'href="/#/{name}"' not in written] == []
    assert written.count("<main") == written.count("</main>") == written.count("<h1>") == 1
    files = ConsoleFiles()
    loaded = re.findall(r"""(?:src|href)="/console/([^"]+)\"""", written)
    assert len(loaded) >= 5
    assert all(files.find(name) for name in loaded)


def test_nothing_is_inline(written: str) -> None:
    assert re.findall(r"""<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:""", written) == []


def test_each_operation_is_folded_below_its_summary(written: str) -> None:
    assert written.count("data-method=") == len(OPERATIONS)
    assert written.count("<details") == written.count("</details>") > len(OPERATIONS)
    for place in OPERATIONS:
        method, path = place.split()
        assert f'data-method="{method}" data-path="{path}"' in written
    tried = re.findall(r'data-method="(\w+)" data-path="([^"]+)" data-try', written)
    assert ("POST", "/v1/chat/completions") in tried
    assert not {"DELETE"} & {method for method, _ in tried}
    assert ("POST", "/headrace/workers/{id}/drain") not in tried


def test_names_and_texts_of_a_schema_are_no_markup() -> None:
    sly: Any = {"type": "string", "description": "<b>x</b>", "default": "<i>"}
    shown = described_list([("<u>", sly, True)], "query")
    assert not {"<b>", "<i>", "<u>"} & set(re.findall(r"<\w+>", shown))
    assert type_of({"$ref": "#/components/schemas/<s>"}) == '<a href="#schema-&lt;s&gt;">&lt;s&gt;</a>'


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 5}, "integer, ≥ 1, ≤ 5"),
        ({"type": "string", "maxLength": 9}, "text, at most 9 characters"),
        ({"type": ["number", "null"]}, "number"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {}}]},
            "text or list of any value",
        ),
        ({"enum": ["a", 1]}, "<code>&quot;a&quot;</code> or <code>1</code>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "object of number"),
        (
            {"type": "array", "items": {"$ref": "#/x/Y"}, "minItems": 1},
            'list of <a href="#schema-Y">Y</a>, at least 1 element',
        ),
    ],
)
def test_types_are_said_in_a_few_words(schema: dict[str, Any], text: str) -> None:
    assert type_of(schema) == text


def test_it_is_written_once() -> None:
    routes = DocumentRoutes()
    assert routes._written is routes._written


def test_an_operation_without_body_has_a_place() -> None:
    shown = page(document({"GET /else": Operation("Shows <it>", {"type": "string"})}))
    assert "Shows &lt;it&gt;" in shown
