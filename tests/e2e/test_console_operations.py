"""The console's operations, used by a browser: requests found and explained, the fleet's hour, drains, and the API."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.e2e.console_page import BROWSER, NO_AXE, ConsolePage, has_axe, opened_page, running_browser
from tests.harness.running_platform import RunningPlatform, running_platform

pytest.importorskip("playwright", reason="Playwright is not installed; to run it: make test-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no browser; to run it: install Debian's chromium"),
]
TIMEOUT = 10
CHAT = "#post-v1-chat-completions"
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as started:
        yield started


@pytest.fixture
def console(browser: Any, demo_platform: RunningPlatform) -> Iterator[ConsolePage]:
    with opened_page(browser, demo_platform.http) as shown:
        yield shown


def complete(console: ConsolePage, name: str) -> None:
    """Sends a request that ends well."""
    body = {"model": "headrace-demo", "prompt": "x", "max_tokens": 2}
    headers = {"x-request-id": name}
    assert httpx2.post(f"{console.url}/v1/completions", json=body, headers=headers, timeout=TIMEOUT).status_code == 200


def open_docs(console: ConsolePage, place: str = "") -> None:
    console.page.goto(f"{console.url}/docs{place}")
    console.page.wait_for_selector("#theme-button:not([hidden])")


def test_a_refused_request_shows_its_path_and_reason_and_is_found_by_them(console: ConsolePage) -> None:
    page = console.page
    httpx2.get(f"{console.url}/v1/nothing/here", timeout=TIMEOUT)
    complete(console, "well-done")
    console.open("requests", "tbody tr")
    page.fill("#search", "nothing/here")
    console.until("document.querySelectorAll('tbody tr').length === 1")
    assert page.inner_text("tbody a") == "/v1/nothing/here"
    assert page.inner_text("tbody .reason").startswith("there is nothing at GET /v1/nothing/here")
    page.click("tbody a")
    page.wait_for_selector("#verdict")
    assert page.inner_text("#verdict").startswith("It was refused with status 404: there is nothing at GET")
    page.click("text=All requests")
    page.wait_for_selector("#search")
    assert page.input_value("#search") == "nothing/here"
    page.fill("#search", "well-done")
    console.until("document.querySelector('tbody td .tag')?.textContent === 'finished'")


def test_requests_are_sorted_and_chosen_by_time(console: ConsolePage) -> None:
    page = console.page
    for number in range(3):
        complete(console, f"sorted-{number}")
    console.open("requests", "tbody tr")
    page.fill("#search", "sorted-")
    page.select_option("#filter-sort", "total")
    console.until("document.querySelectorAll('tbody tr').length === 3")
    spent = [float(text.split()[0]) for text in page.locator("tbody td:last-child").all_inner_texts()]
    assert spent == sorted(spent, reverse=True)
    page.evaluate("Date.now = () => performance.timeOrigin + 3600e3")
    page.select_option("#filter-range", "300")
    page.wait_for_selector("text=No request is like that.")


def test_the_last_hour_survives_a_reload(console: ConsolePage) -> None:
    page = console.page
    complete(console, "charted")
    for _ in range(2):
        console.open("fleet", ".chart-figure >> nth=0")
        texts = page.locator(".chart-figure svg").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        assert len(texts) == 6
        assert texts[0].startswith("Requests ended, the last ")
    page.select_option("#hour-model", "headrace-demo")
    assert page.locator(".chart-figure").count() == 6


def test_figures_explain_themselves_to_mouse_and_keyboard(console: ConsolePage) -> None:
    page = console.page
    console.open("fleet", "td:has-text('worker-0')")
    for word in ("Credit", "Sessions", "Preempted", "Draft acceptance", "KV reserved", "Process memory"):
        button = page.locator(f"button.hint:has-text('{word}')")
        button.focus()
        assert page.inner_text("#hint-box") == button.get_attribute("title")
    page.keyboard.press("Escape")
    assert not page.is_visible("#hint-box")


def test_a_model_gets_another_name_and_loses_it(console: ConsolePage) -> None:
    page = console.page
    console.open("fleet", "[data-focus='name-model']")
    page.click("[data-focus='name-model']")
    page.fill("#alias-name", "gpt-4o")
    page.click("#served-confirm")
    page.wait_for_selector("#notice:has-text('gpt-4o is answered by headrace-demo')")
    page.wait_for_selector("td:has-text('alias of headrace-demo')")
    page.click("[data-focus='unload-gpt-4o']")
    page.click("#served-confirm")
    page.wait_for_selector("#notice:has-text('gpt-4o is no longer served')")
    page.wait_for_selector("td:has-text('alias of headrace-demo')", state="detached")


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[RunningPlatform]:
    """A platform whose model leaves memory when idle."""
    config = tmp_path / "headrace.toml"
    config.write_text("[worker]\nkeep_alive_seconds = 600\n")
    with running_platform(tmp_path / "state", ["--config", str(config)]) as platform:
        yield platform


def test_a_model_is_pinned_and_unpinned(browser: Any, turns: RunningPlatform) -> None:
    with opened_page(browser, turns.http) as console:
        page = console.page
        console.open("fleet", "[data-focus='pin-headrace-demo']")
        page.click("[data-focus='pin-headrace-demo']")
        page.wait_for_selector("#served-dialog:has-text('It stays in memory')")
        page.click("#served-confirm")
        page.wait_for_selector("#notice:has-text('headrace-demo is pinned')")
        page.wait_for_selector("td:has-text('model, pinned')")
        page.click("button:has-text('Unpin')")
        page.click("#served-confirm")
        page.wait_for_selector("td:has-text('model, pinned')", state="detached")


def test_a_model_that_cannot_be_loaded_says_why_where_it_was_asked_for(console: ConsolePage) -> None:
    page = console.page
    console.open("fleet", "[data-focus='load-model']")
    page.click("[data-focus='load-model']")
    page.fill("#load-name", "new")
    page.fill("#load-source", "/nowhere")
    page.click("#served-confirm")
    page.wait_for_selector("#served-dialog .failure:has-text('/nowhere is neither a folder nor a GGUF file')")
    page.keyboard.press("Escape")
    page.wait_for_selector("#served-dialog", state="detached")
    console.faults = [fault for fault in console.faults if "400" not in fault]


def test_the_last_worker_is_drained_by_force_only(console: ConsolePage) -> None:
    page = console.page
    console.open("fleet", "[data-focus='drain-worker-0']")
    page.click("[data-focus='drain-worker-0']")
    assert "Then its process exits." in page.inner_text("#drain-dialog")
    page.click("#drain-confirm")
    page.wait_for_selector("#drain-dialog .failure")
    assert "is the last worker of headrace-demo" in page.inner_text("#drain-dialog .failure")
    assert page.inner_text("#drain-confirm") == "Drain anyway"
    sent: list[Any] = []
    answer = json.dumps({"id": "worker-0", "state": "draining", "sessions": 0})

    def fulfill(route: Any) -> None:
        sent.append(json.loads(route.request.post_data))
        route.fulfill(content_type="application/json", body=answer)

    page.route("**/drain", fulfill)
    page.fill("#drain-patience", "60")
    page.click("#drain-confirm")
    page.wait_for_selector("#notice:has-text('worker-0 drains: 0 requests left')")
    assert sent == [{"patience_seconds": 60, "force": True}]
    assert page.locator("#drain-dialog").count() == 0
    console.faults = [fault for fault in console.faults if "400" not in fault]


def test_workers_are_drained_by_those_who_may(console: ConsolePage) -> None:
    report = httpx2.get(f"{console.url}/headrace/fleet", timeout=TIMEOUT).json()
    encoder = report["workers"][0] | {"id": "worker-9", "model": "encoder", "kv_blocks": 0, "residence": "asleep"}
    report["workers"].append(encoder)
    report["caller"]["may_drain"] = False
    console.page.route("**/headrace/fleet", lambda route: route.fulfill(json=report))
    console.open("fleet", "td:has-text('worker-9')")
    assert console.page.locator("text=Drain").count() == 0
    row = console.page.inner_text("tr:has-text('worker-9') >> nth=0")
    assert "asleep" in row
    assert "0 / 0" not in row


def test_workers_that_end_together_are_named(console: ConsolePage) -> None:
    report = httpx2.get(f"{console.url}/headrace/fleet", timeout=TIMEOUT).json()
    one = report["workers"][0] | {"address": "10.0.0.1:7/a", "sessions": 2}
    neighbor = one | {"id": "worker-9", "address": "10.0.0.1:7/b"}
    report["workers"] = [one, neighbor, one | {"id": "worker-8", "address": "10.0.0.1:8/a"}]
    console.page.route("**/headrace/fleet", lambda route: route.fulfill(json=report))
    console.open("fleet", "[data-focus='drain-worker-0']")
    console.page.click("[data-focus='drain-worker-0']")
    text = console.page.inner_text("#drain-dialog")
    assert "Its 2 requests of headrace-demo continue on other workers" in text
    assert "worker-9 is of the same process, and ends with it." in text


def test_a_phone_shows_outcome_and_status_without_scrolling(browser: Any, demo_platform: RunningPlatform) -> None:
    with opened_page(browser, demo_platform.http, viewport=PHONE) as console:
        httpx2.get(f"{console.url}/v1/nothing/here", timeout=TIMEOUT)
        complete(console, "on-a-phone")
        overflow = "element => element.scrollWidth - element.clientWidth"
        for name, ready in (("requests", "td .tag.bad"), ("fleet", "td .tag")):
            console.open(name, ready)
            assert console.page.locator(".scroll").first.evaluate(overflow) <= 1, name
            box = console.page.locator("td .tag").first.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= PHONE["width"]
        console.open("requests", "td .tag.bad")
        assert console.page.is_visible("td:has-text('status 404')")
        console.open("usage", ".stackbar")
        assert console.page.locator(".scroll").first.evaluate(overflow) <= 1


def test_an_operation_is_tried(console: ConsolePage) -> None:
    page = console.page
    console.open("chat", "#chat-box")
    page.click("nav >> text=API")
    page.wait_for_selector(f"{CHAT} > summary")
    page.click(f"{CHAT} > summary")
    body = json.loads(page.input_value(f"{CHAT} textarea"))
    assert body["model"] == "headrace-demo"
    page.click(f"{CHAT} .trial button")
    page.wait_for_selector(f"{CHAT} .answer")
    assert json.loads(page.inner_text(f"{CHAT} .answer"))["object"] == "chat.completion"
    page.fill(f"{CHAT} textarea", "{")
    page.click(f"{CHAT} .trial button")
    assert "not valid JSON" in page.inner_text(f"{CHAT} .failure")
    page.click("nav >> text=Fleet")
    page.wait_for_selector("h1:has-text('Fleet')")


def test_parameters_are_filled_in(console: ConsolePage) -> None:
    place = "#get-v1-models-name"
    open_docs(console, place)
    console.page.click(f"{place} .trial button")
    assert console.page.inner_text(f"{place} .failure") == "Fill in name first."
    console.page.fill(f"{place} .trial-field", "headrace-demo")
    console.page.click(f"{place} .trial button")
    console.page.wait_for_selector(f"{place} .answer")
    assert json.loads(console.page.inner_text(f"{place} .answer"))["id"] == "headrace-demo"


def test_a_type_leads_to_its_schema(console: ConsolePage) -> None:
    open_docs(console, CHAT)
    console.page.click(f"{CHAT} a:has-text('StreamOptions')")
    console.page.wait_for_selector("#schema-StreamOptions >> text=include_usage")


def test_what_ends_something_is_not_tried_by_a_page(console: ConsolePage) -> None:
    for place in ("#delete-headrace-keys-id", "#post-headrace-workers-id-drain"):
        open_docs(console, place)
        assert console.page.get_attribute(place, "open") is not None
        assert console.page.locator(f"{place} .trial").count() == 0


@pytest.mark.skipif(not has_axe(), reason=NO_AXE)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_api_is_accessible(browser: Any, demo_platform: RunningPlatform, scheme: str, width: int) -> None:
    size = {"width": width, "height": 844}
    with opened_page(browser, demo_platform.http, viewport=size, color_scheme=scheme) as console:
        open_docs(console, CHAT)
        console.page.click(f"{CHAT} .trial button")
        console.page.wait_for_selector(f"{CHAT} .answer")
        console.page.click(f"{CHAT} a:has-text('StreamOptions')")
        assert console.violations() == []
        assert not console.is_too_wide()


@pytest.mark.skipif(not has_axe(), reason=NO_AXE)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_and_dialogs_are_accessible(browser: Any, demo_platform: RunningPlatform, scheme: str) -> None:
    with opened_page(browser, demo_platform.http, color_scheme=scheme) as console:
        console.open("fleet", ".chart-figure >> nth=0")
        console.page.focus("button.hint >> nth=0")
        assert console.violations() == []
        console.page.click("[data-focus='drain-worker-0']")
        assert console.violations() == []
