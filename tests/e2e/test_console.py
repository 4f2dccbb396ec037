"""The console, used by a browser: the playground, the requests, the fleet, and how it looks and is reached."""

import json
import shlex
import subprocess
import sys
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
QUESTION = "What is continuous batching?"
PAGES = {"chat": "#chat-box", "playground": "#compose", "requests": "tbody tr", "fleet": ".tile", "usage": ".stackbar"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Ulm", "Bonn"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "maxLength": 20}, "certain": {"type": "boolean"}},
    "required": ["answer", "certain"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as started:
        yield started


@pytest.fixture
def console(browser: Any, demo_platform: RunningPlatform) -> Iterator[ConsolePage]:
    with opened_page(browser, demo_platform.http) as shown:
        shown.open("playground", "#compose")
        yield shown


def answer_with(console: ConsolePage, *deltas: dict[str, str]) -> None:
    """Lets the browser read a stream of its own, whatever the platform would say."""
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    console.page.route(
        "**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=stream)
    )


def milliseconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * (1000 if unit == "s" else 1)


def test_a_chat_streams_and_its_waterfall_adds_up(console: ConsolePage) -> None:
    page = console.page
    page.fill("#p-temperature", "0")
    console.ask_and_wait(QUESTION)
    assert "running batch" in page.inner_text(".message.assistant .text")
    spent = [milliseconds(text) for text in page.locator(".fall tbody td:nth-child(3)").all_inner_texts()]
    names, values = (page.locator(f".facts {tag}").all_inner_texts() for tag in ("dt", "dd"))
    facts = dict(zip(names, values, strict=True))
    wall = milliseconds(facts["Total"])
    record = httpx2.get(f"{console.url}/headrace/requests/last", timeout=10).json()
    assert sum(spent) == pytest.approx(record["total_ms"], rel=0.05)
    assert 0.95 * record["total_ms"] <= sum(record["stages_ms"].values()) <= wall
    assert facts["Tokens"] == f"{record['prompt_tokens']} in, {record['output_tokens']} out"
    assert facts["Finish reason"] == "stop"
    assert milliseconds(facts["TTFT (gateway)"]) <= milliseconds(facts["TTFT (browser)"]) <= wall


def test_the_conversation_goes_on_and_is_edited(console: ConsolePage) -> None:
    page = console.page
    console.ask_and_wait(QUESTION)
    page.click("text=Add system")
    page.keyboard.type("Be brief.")
    page.fill("#compose", "What is a KV cache?")
    page.click("#tab-request")
    body = json.loads(page.inner_text("#tab-panel"))
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["messages"][0]["content"] == "Be brief."
    page.click("[aria-label='Delete message 3']")
    page.fill("[aria-label='Message 2']", "Edited")
    page.select_option("[aria-label='Role of message 2']", "assistant")
    body = json.loads(page.inner_text("#tab-panel"))
    assert [(message["role"], message["content"]) for message in body["messages"][1:]] == [
        ("assistant", "Edited"),
        ("user", "What is a KV cache?"),
    ]


def test_parameters_are_sent_and_events_shown(console: ConsolePage) -> None:
    page = console.page
    given = {"temperature": "0.5", "top_p": "0.9", "max_tokens": "3", "seed": "7", "stop": "zork\nquux"}
    for name, value in given.items():
        page.fill(f"#p-{name}", value)
    page.select_option("#p-class", "batch")
    console.ask_and_wait(QUESTION)
    assert page.locator(".facts dd").all_inner_texts().count("length") == 1
    page.click("#tab-request")
    body = json.loads(page.inner_text("#tab-panel"))
    assert (body["temperature"], body["top_p"], body["max_tokens"], body["seed"]) == (0.5, 0.9, 3, 7)
    assert body["stop"] == ["zork", "quux"]
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute("#tab-events", "aria-selected") == "true"
    assert page.locator(".events li").last.inner_text().endswith("[DONE]")
    assert httpx2.get(f"{console.url}/headrace/requests/last", timeout=10).json()["class"] == "batch"


def test_token_probabilities_are_reached_by_keyboard(console: ConsolePage) -> None:
    page = console.page
    page.check("#p-logprobs")
    console.ask_and_wait(QUESTION)
    page.focus(".token")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".token-detail p").startswith("Token 2 of ")
    assert page.locator(".alternatives li").count() == 5
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"


def test_answers_end_with_their_text_and_one_hint(console: ConsolePage) -> None:
    page = console.page
    page.check("#p-logprobs")
    console.ask_and_wait(QUESTION)
    console.ask("What is a KV cache?")
    console.until("document.querySelectorAll('.tokens').length === 2")
    assert "<|im_end|>" not in page.inner_text("main")
    assert page.locator(".token-hint").evaluate_all("all => all.map(one => one.checkVisibility())") == [False, True]


def test_a_tool_is_called_and_answered_by_hand(console: ConsolePage) -> None:
    page = console.page
    page.click("summary:has-text('Tools')")
    page.fill("#p-tools", '[{"type": "function"}]')
    assert page.inner_text("#tools-said") == "Tool 1 needs function.name, a text."
    page.fill("#p-tools", '[{"type": ]')
    assert "not valid JSON" in page.inner_text("#tools-said")
    page.fill("#p-tools", json.dumps([WEATHER]))
    assert page.inner_text("#tools-said") == "1 tool: get_weather"
    page.select_option("#p-tool_choice", "required")
    console.ask_and_wait("What is the weather in Ulm?")
    assert page.locator(".call b").first.inner_text() == "get_weather"
    assert json.loads(page.locator(".call pre").first.inner_text())["city"] in ("Ulm", "Bonn")
    page.select_option("#p-tool_choice", "none")
    call_count = page.locator("text=Answer the call").count()
    for _ in range(call_count):
        page.locator(".call textarea").first.fill('{"celsius": 21}')
        page.locator("text=Answer the call").first.click()
    page.wait_for_selector(".message.tool ~ .message.assistant:not(.live)")
    console.wait_until_told()
    page.click("#tab-request")
    roles = [message["role"] for message in json.loads(page.inner_text("#tab-panel"))["messages"]]
    assert roles == ["user", "assistant", *["tool"] * call_count, "assistant"]
    assert page.locator("text=Answer the call").count() == 0


def test_an_answer_follows_the_schema(console: ConsolePage) -> None:
    page = console.page
    page.click("summary:has-text('Output format')")
    page.select_option("#p-format", "json_schema")
    page.fill("#p-schema", "{")
    page.fill("#compose", QUESTION)
    page.click("#send")
    assert "not valid JSON" in page.inner_text(".chat .failure")
    page.fill("#p-schema", json.dumps(SCHEMA))
    page.click("text=Run again")
    console.wait_until_told()
    answer = json.loads(page.inner_text(".message.assistant .text"))
    assert set(answer) == {"answer", "certain"}


def test_reasoning_is_folded(console: ConsolePage) -> None:
    """The bundled model does not reason, so its place is taken by a recorded stream."""
    answer_with(console, {"reasoning_content": "Hm. "}, {"reasoning_content": "Yes."}, {"content": "Forty-two"})
    console.ask(QUESTION)
    console.page.wait_for_selector(".message.assistant:not(.live)")
    assert console.page.inner_text(".message.assistant > .text") == "Forty-two"
    assert not console.page.is_visible(".reasoning .text")
    console.page.click(".reasoning summary")
    assert console.page.inner_text(".reasoning .text") == "Hm. Yes."


def test_markup_of_a_model_stays_text(console: ConsolePage) -> None:
    sneaky = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    answer_with(console, {"content": sneaky})
    console.ask(sneaky)
    console.page.wait_for_selector(".message.assistant:not(.live)")
    assert console.page.inner_text(".message.assistant .text") == sneaky
    assert console.page.locator("main img, main script").count() == 0


def test_what_is_copied_runs(console: ConsolePage) -> None:
    page = console.page
    page.fill("#p-max_tokens", "4")
    page.fill("#compose", 'It\'s "quoted" & $odd: what is batching?')
    page.click("#menu")
    words = shlex.split(console.copied("text=Copy as curl", "Command"))
    body = json.loads(words[words.index("-d") + 1])
    answer = httpx2.post(words[2], json=body, timeout=20)
    assert (words[:2], answer.status_code) == (["curl", "-sN"], 200)
    assert body["messages"][0]["content"] == 'It\'s "quoted" & $odd: what is batching?'
    page.click("#menu")
    code = console.copied("text=Copy as Python", "Code")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_an_answer_is_stopped(browser: Any, tmp_path: Path) -> None:
    config = tmp_path / "platform.toml"
    config.write_text("[worker]\nsim_base_seconds = 0.1\n")
    with (
        running_platform(tmp_path / "state", ["--engine", "sim", "--config", str(config)]) as platform,
        opened_page(browser, platform.http) as console,
    ):
        console.open("playground", "#compose")
        console.page.fill("#p-max_tokens", "500")
        console.ask("Go on for long")
        console.until("document.querySelector('.live .text')?.textContent.length > 2")
        console.page.keyboard.press("Escape")
        console.page.wait_for_selector(".message.assistant:not(.live)")
        assert "stopped" in console.page.locator(".facts dd").all_inner_texts()
        assert console.page.is_visible("#send")
        console.wait_until_told()
        platform.wait_until_idle()
        last = httpx2.get(f"{platform.http}/headrace/requests/last", timeout=10).json()
        assert last["outcome"] == "request_cancelled"
        assert last["output_tokens"] < 500


def test_two_texts_are_embedded(browser: Any, embedding_platform: RunningPlatform) -> None:
    with opened_page(browser, embedding_platform.http) as console:
        console.open("playground", "#model")
        console.page.select_option("#model", "minilm")
        console.page.click("text=Embed >> nth=-1")
        console.page.wait_for_selector("#cosine")
        assert float(console.page.inner_text("#cosine").split()[0]) > 0.5
        assert "384" in console.page.locator(".facts dd").all_inner_texts()
        assert console.page.locator(".fall").count() == 1


def test_requests_are_listed_and_explained(console: ConsolePage) -> None:
    console.ask_and_wait(QUESTION)
    refused = httpx2.post(f"{console.url}/v1/chat/completions", json={"model": "nothing", "messages": []}, timeout=10)
    assert refused.status_code >= 400
    page = console.page
    page.click("text=Requests")
    page.wait_for_selector("tbody tr")
    page.select_option("#filter-outcome", "finished")
    console.until("![...document.querySelectorAll('td .tag')].some((tag) => tag.textContent !== 'finished')")
    page.click("tbody a >> nth=0")
    page.wait_for_selector(".fall")
    assert "(100.0%)" in page.inner_text("figcaption")
    last = httpx2.get(f"{console.url}/headrace/requests?outcome=finished&limit=1", timeout=10).json()["data"][0]
    assert page.locator(".command code").all_inner_texts() == [
        f"headrace trace {last['request_id']}",
        f"headrace explain {last['request_id']}",
    ]


def test_new_requests_come_by_themselves(console: ConsolePage) -> None:
    console.page.keyboard.press("Escape")
    console.page.evaluate("document.activeElement.blur()")
    console.page.keyboard.press("3")
    console.page.wait_for_selector("h1:has-text('Requests')")
    name = "seen-by-itself"
    body = {"model": "headrace-demo", "prompt": "x", "max_tokens": 1}
    httpx2.post(f"{console.url}/v1/completions", json=body, headers={"x-request-id": name}, timeout=10)
    console.page.wait_for_selector(f"a[href*='{name}']")


def test_the_fleet_is_live(console: ConsolePage) -> None:
    page = console.page
    page.click("text=Fleet")
    page.wait_for_selector("td:has-text('worker-0')")
    services = page.inner_text(".services")
    assert all(name in services for name in ("gateway", "tokenizer", "scheduler", "cache", "nats"))
    page.wait_for_selector(".chart-line", state="attached")


def test_dark_and_light(browser: Any, demo_platform: RunningPlatform) -> None:
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    with opened_page(browser, demo_platform.http, color_scheme="dark") as console:
        console.open("playground", "#compose")
        dark = console.page.evaluate(ground)
        console.page.click("#theme-button")
        light = console.page.evaluate(ground)
        assert console.page.get_attribute("#theme-button", "aria-label") == "Color scheme: light"
        console.open("fleet", ".tile")
        assert console.page.evaluate(ground) == light != dark
        console.page.click("#theme-button")
        assert console.page.evaluate(ground) == dark


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_windows_do_not_scroll_sideways(browser: Any, demo_platform: RunningPlatform, width: int) -> None:
    with opened_page(browser, demo_platform.http, viewport={"width": width, "height": 780}) as console:
        console.open("playground", "#compose")
        console.page.click("summary:has-text('Parameters')") if width < 900 else None
        console.page.check("#p-logprobs")
        console.ask_and_wait(QUESTION)
        for tab in ("request", "events", "waterfall"):
            console.page.click(f"#tab-{tab}")
            assert not console.is_too_wide(), tab
        console.page.click("text=All about this request")
        console.page.wait_for_selector("text=In the terminal")
        assert not console.is_too_wide()
        for name, ready in PAGES.items():
            console.open(name, ready)
            assert not console.is_too_wide(), name


@pytest.mark.skipif(not has_axe(), reason=NO_AXE)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_accessible(browser: Any, demo_platform: RunningPlatform, scheme: str) -> None:
    with opened_page(browser, demo_platform.http, color_scheme=scheme) as console:
        console.open("playground", "#compose")
        console.page.check("#p-logprobs")
        console.page.click("summary:has-text('Tools')")
        console.page.click("summary:has-text('Output format')")
        console.ask_and_wait(QUESTION)
        assert console.violations() == []
        console.page.click("text=All about this request")
        console.page.wait_for_selector("text=In the terminal")
        assert console.violations() == []
        console.page.click("#help-button")
        assert console.violations() == []
        for name, ready in PAGES.items():
            console.open(name, ready)
            assert console.violations() == [], name


def test_the_keyboard_is_enough(console: ConsolePage) -> None:
    page = console.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "compose"
    page.keyboard.type(QUESTION)
    page.keyboard.press("Control+Enter")
    console.wait_until_told()
    assert page.evaluate("document.activeElement.id") == "compose"
    page.evaluate("document.activeElement.blur()")
    for number, title in enumerate(["New chat", "Playground", "Requests", "Fleet", "Keys and usage"], start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f"h1:has-text('{title}')")
        if title == "New chat":
            console.until("document.activeElement.id === 'chat-box'")
            page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("#help-dialog")
