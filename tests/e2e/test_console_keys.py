"""The console of a platform that asks for keys: entered once, kept by the tab, made and revoked."""

import json
import subprocess
import sys
import time
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
PATIENCE = 10.0


def made_key(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "headrace.cli", "keys", "create", *arguments, "--json", "--state-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return str(json.loads(done.stdout)["key"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console-keys")


@pytest.fixture(scope="module")
def admin(folder: Path) -> str:
    return made_key(folder, "boss", "--scope", "generate", "--scope", "admin")


@pytest.fixture(scope="module")
def plain(folder: Path) -> str:
    return made_key(folder, "laptop", "--tenant", "acme")


@pytest.fixture(scope="module")
def guarded(folder: Path, admin: str, plain: str) -> Iterator[RunningPlatform]:
    with running_platform(folder, ["--engine", "sim"]) as platform:
        yield platform


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as started:
        yield started


@pytest.fixture
def console(browser: Any, guarded: RunningPlatform) -> Iterator[ConsolePage]:
    with opened_page(browser, guarded.http) as shown:
        shown.page.goto(f"{guarded.http}/#/playground")
        shown.page.wait_for_selector("#key-dialog[open]")
        yield shown


def enter(console: ConsolePage, key: str) -> None:
    console.page.fill("#key-field", key)
    console.page.keyboard.press("Enter")
    console.page.wait_for_selector("#compose")


def until_status(console: ConsolePage, key: str, status: int) -> None:
    """Waits until the gateway has read the file of keys again."""
    deadline = time.monotonic() + PATIENCE
    headers = {"authorization": f"Bearer {key}"}
    while httpx2.get(f"{console.url}/v1/models", headers=headers, timeout=10).status_code != status:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_key_is_asked_for_before_anything_else(console: ConsolePage, plain: str) -> None:
    assert console.page.is_visible("text=A key is needed")
    enter(console, plain)
    console.ask_and_wait("Hello")
    assert console.page.evaluate("sessionStorage.getItem('headrace.key')") == plain
    assert plain not in console.page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")
    console.page.click("#menu")
    copied = console.copied("text=Copy as curl", "Command")
    assert "$HEADRACE_API_KEY" in copied
    assert plain not in copied


def test_a_chat_holds_no_key(console: ConsolePage, plain: str) -> None:
    enter(console, plain)
    page = console.page
    console.open("chat", "#chat-box")
    page.fill("#chat-box", "Hello")
    page.keyboard.press("Enter")
    page.wait_for_selector(".turn.answer:not(.live)")
    page.click("#menu")
    with page.expect_download() as saved:
        page.click("text=Export as JSON")
    assert plain not in Path(saved.value.path()).read_text()
    assert plain not in page.evaluate("JSON.stringify(localStorage) + document.cookie + location.href")


def test_another_tab_asks_again(console: ConsolePage, plain: str) -> None:
    enter(console, plain)
    console.page.reload()
    console.page.wait_for_selector("#compose")
    other = console.page.context.new_page()
    other.goto(console.url)
    other.wait_for_selector("#key-dialog[open]")


def test_forgetting_locks_the_page(console: ConsolePage, plain: str) -> None:
    enter(console, plain)
    console.page.evaluate("document.activeElement.blur()")
    console.page.keyboard.press("k")
    console.page.click("#key-forget")
    console.page.wait_for_selector("text=A key is needed")
    assert console.page.evaluate("sessionStorage.getItem('headrace.key')") is None


def test_a_wrong_key_is_told(browser: Any, guarded: RunningPlatform) -> None:
    with opened_page(browser, guarded.http) as console:
        console.page.goto(guarded.http)
        console.page.fill("#key-field", "sk-abcdefgh-wrong")
        console.page.keyboard.press("Enter")
        console.page.wait_for_selector("#key-lead:has-text('not known')")
        # Browsers write every refusal into their log.
        assert [text for text in console.faults if "401" not in text] == []
        console.faults.clear()


def test_without_the_scope_the_page_says_how(console: ConsolePage, plain: str) -> None:
    enter(console, plain)
    console.page.click("text=Keys and usage")
    console.page.wait_for_selector("text=belongs to acme")
    assert console.page.inner_text(".command code") == "headrace keys create ADMIN --scope admin"
    assert console.page.locator("#new-name").count() == 0


def test_a_key_is_made_and_revoked(console: ConsolePage, admin: str) -> None:
    page = console.page
    enter(console, admin)
    page.click("text=Keys and usage")
    page.fill("#new-name", "visitor")
    page.fill("#new-rpm", "5")
    page.select_option("#new-lifetime", "1 day")
    page.click("text=Create key")
    page.wait_for_selector("#made-key")
    made = page.inner_text("#made-key")
    assert console.copied(".made button", "Key") == made
    until_status(console, made, 200)
    assert "5 requests per minute" in page.inner_text("tr:has-text('visitor')")
    page.click("[aria-label='Revoke visitor']")
    page.click("text=Really revoke?")
    page.wait_for_selector("tr:has-text('visitor') >> text=revoked")
    assert page.locator("#made-key").count() == 0
    until_status(console, made, 401)


@pytest.mark.skipif(not has_axe(), reason=NO_AXE)
def test_the_page_of_keys_is_accessible(console: ConsolePage, admin: str) -> None:
    assert console.violations() == []
    enter(console, admin)
    console.page.click("text=Keys and usage")
    console.page.wait_for_selector("#new-name")
    assert console.violations() == []
    console.page.set_viewport_size({"width": 360, "height": 780})
    assert not console.is_too_wide()
