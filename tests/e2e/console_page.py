"""The console in a browser, watched: errors in its log, and requests to anyone but the platform, fail the test."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
PATIENCE_MS = 20_000
NO_AXE = "axe-core is not installed; to run it: make test-browser"


class ConsolePage:
    """One page of a browser."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._on_log)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", self._on_request)

    def open(self, name: str = "playground", ready: str = "h1") -> None:
        """Opens one of the five pages, whole, and waits for an element of it."""
        self.page.goto(f"{self.url}/#/{name}")
        self.page.reload()
        self.page.wait_for_selector(ready)

    def ask(self, text: str) -> None:
        """Sends a message by the keyboard."""
        self.page.fill("#compose", text)
        self.page.keyboard.press("Control+Enter")

    def wait_until_told(self) -> None:
        """Waits until the gateway's record of the last request is shown."""
        self.page.wait_for_selector("text=All about this request")

    def ask_and_wait(self, text: str) -> None:
        self.ask(text)
        self.wait_until_told()

    def copied(self, selector: str, what: str) -> str:
        """Presses a button that copies, and returns what is on the clipboard once the page says so."""
        self.page.click(selector)
        self.page.wait_for_selector(f"#notice:has-text('{what} copied')")
        return str(self.page.evaluate("navigator.clipboard.readText()"))

    def until(self, expression: str) -> None:
        """Waits until an expression is true in the page. Playwright's own way needs what the page's policy forbids."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, expression
            self.page.wait_for_timeout(20)

    def is_too_wide(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))

    def violations(self) -> list[str]:
        """Rules of axe-core that the page breaks: WCAG 2.2, A and AA, and its best practices."""
        self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run()")["violations"]
        return [f"{rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]

    def _on_log(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((f"{self.url}/", "data:")):
            self.faults.append(f"asks {request.url}")


def has_axe() -> bool:
    return find_spec("axe_playwright_python") is not None


@contextlib.contextmanager
def running_browser() -> Iterator[Any]:
    """Starts the machine's browser without a window. Playwright brings none here."""
    from playwright.sync_api import sync_playwright

    # A browser of root has no sandbox. Elsewhere it keeps its own.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=arguments)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened_page(browser: Any, url: str, **options: Any) -> Iterator[ConsolePage]:
    """Opens a page of its own, with nothing kept from others, and checks at the end that nothing went wrong in it."""
    given = {"viewport": {"width": 1280, "height": 900}, "permissions": ["clipboard-read", "clipboard-write"]} | options
    context = browser.new_context(**given)
    try:
        shown = ConsolePage(context.new_page(), url)
        yield shown
        assert shown.faults == []
    finally:
        context.close()
