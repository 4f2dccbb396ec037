"""The console's chat, used by a browser: writing, reading along, branches, what is kept, and base models."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.console_page import BROWSER, NO_AXE, ConsolePage, has_axe, opened_page, running_browser
from tests.harness.running_platform import RunningPlatform, running_platform

pytest.importorskip("playwright", reason="Playwright is not installed; to run it: make test-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no browser; to run it: install Debian's chromium"),
]
QUESTION = "What is continuous batching?"
WRITTEN = ".turn.answer:not(.live)"
LONG = "\n\n".join(f"Paragraph {number}" for number in range(80))
MARKDOWN = """## Steps
1. one
   - **inner**

| a | b |
|---|---|
| 1 | 2 |

```python
print("x < y")  # said
```
<img src=x onerror=alert(1)>
[go](https://example.org) [no](javascript:alert(1))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as started:
        yield started


@pytest.fixture
def chat(browser: Any, demo_platform: RunningPlatform) -> Iterator[ConsolePage]:
    with opened_page(browser, demo_platform.http) as shown:
        shown.open("chat", "#chat-box")
        yield shown


@pytest.fixture(scope="module")
def slow_platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    """Its answers take as long as a test wants to watch them."""
    folder = tmp_path_factory.mktemp("slow")
    (folder / "platform.toml").write_text("[worker]\nsim_base_seconds = 0.02\n")
    arguments = ["--engine", "sim", "--config", str(folder / "platform.toml")]
    with running_platform(folder / "state", arguments) as platform:
        yield platform


@pytest.fixture
def slow_chat(browser: Any, slow_platform: RunningPlatform) -> Iterator[ConsolePage]:
    with opened_page(browser, slow_platform.http, viewport={"width": 700, "height": 500}) as shown:
        shown.open("chat", "#chat-box")
        set_option(shown, "max_tokens", "2000")
        yield shown


def say(chat: ConsolePage, text: str = QUESTION) -> None:
    """Sends a message and waits for the end of its answers."""
    before = chat.page.locator(WRITTEN).count()
    chat.page.fill("#chat-box", text)
    chat.page.keyboard.press("Enter")
    chat.until(f"document.querySelectorAll('{WRITTEN}').length > {before} && !document.querySelector('.live')")


def answer_with(chat: ConsolePage, *deltas: Mapping[str, object], finish: str = "stop", usage: Any = None) -> None:
    """Lets the browser read a stream of its own, whatever the platform would say."""
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
    stream = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    path = "**/v1/chat/completions"
    chat.page.unroute(path)
    chat.page.route(path, lambda route: route.fulfill(content_type="text/event-stream", body=stream))


def list_models(chat: ConsolePage, *models: dict[str, object]) -> None:
    """Lets the platform's list of models say something else of them."""
    content = json.dumps(
        {"object": "list", "data": [{"object": "model", "max_model_length": 2048} | one for one in models]}
    )
    chat.page.route("**/v1/models", lambda route: route.fulfill(content_type="application/json", body=content))
    chat.open("chat", "#chat-box")


def set_option(chat: ConsolePage, name: str, value: str) -> None:
    page = chat.page
    page.click("#open-settings")
    field = f"#s-{name}"
    page.select_option(field, value) if name in ("count", "compare") else page.fill(field, value)
    page.keyboard.press("Escape")
    page.wait_for_selector("#settings-drawer", state="hidden")


def answers(chat: ConsolePage) -> list[str]:
    return [str(text).strip() for text in chat.page.locator(".turn.answer .md").all_inner_texts()]


def body_of(chat: ConsolePage, path: str, text: str) -> dict[str, Any]:
    """The request that a message makes."""
    with chat.page.expect_request(f"**/{path}") as sent:
        say(chat, text)
    return dict(json.loads(sent.value.post_data))


def test_the_first_page_invites(chat: ConsolePage) -> None:
    page = chat.page
    page.goto(chat.url)
    page.wait_for_selector(".welcome")
    assert page.evaluate("document.activeElement.id") == "chat-box"
    facts = dict(
        zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
    )
    assert facts["Context"] == "2,048 tokens"
    assert facts["Parameters"] == "4.0 million"
    set_option(chat, "temperature", "0")
    page.click(f".examples >> text={QUESTION}")
    page.wait_for_selector(WRITTEN)
    assert "running batch" in answers(chat)[0]


def test_enter_sends_and_shift_enter_breaks(chat: ConsolePage) -> None:
    page = chat.page
    page.keyboard.type("One")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    assert page.input_value("#chat-box") == "One\ntwo"
    page.evaluate(
        "for (const fields of [{isComposing: true}, {keyCode: 229}]) document.getElementById('chat-box')"
        ".dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true, ...fields}))"
    )
    assert page.locator(".turn").count() == 0
    page.keyboard.press("Enter")
    page.wait_for_selector(WRITTEN)
    assert page.inner_text(".bubble .text") == "One\ntwo"
    assert page.input_value("#chat-box") == ""
    assert page.evaluate("document.activeElement.id") == "chat-box"


def test_the_box_grows_up_to_a_limit(chat: ConsolePage) -> None:
    height = "document.getElementById('chat-box').offsetHeight"
    small = chat.page.evaluate(height)
    chat.page.fill("#chat-box", "a\nb\nc\nd")
    assert chat.page.evaluate(height) > small + 48
    chat.page.fill("#chat-box", LONG)
    assert chat.page.evaluate(height) <= 322
    chat.page.fill("#chat-box", "")
    assert chat.page.evaluate(height) == small


def test_the_view_follows_until_the_reader_scrolls_up(slow_chat: ConsolePage) -> None:
    page = slow_chat.page
    view = "document.getElementById('conversation')"
    distance = f"(({{scrollHeight: all, clientHeight: seen, scrollTop: top}}) => all - seen - top)({view})"
    page.fill("#chat-box", LONG)
    page.keyboard.press("Enter")
    slow_chat.until("document.querySelector('.live .md')?.textContent.length > 100")
    assert page.evaluate(distance) < 48
    assert not page.is_visible("#jump")
    page.hover("#conversation")
    page.mouse.wheel(0, -600)
    page.wait_for_selector("#jump")
    top = page.evaluate(f"{view}.scrollTop")
    length = page.evaluate("document.querySelector('.live .md').textContent.length")
    slow_chat.until(f"document.querySelector('.live .md').textContent.length > {length} + 100")
    assert page.evaluate(f"{view}.scrollTop") == top
    page.click("#jump")
    assert page.evaluate(distance) < 48
    slow_chat.until(f"document.querySelector('.live .md').textContent.length > {length} + 300")
    assert page.evaluate(distance) < 48
    assert page.is_visible("#chat-box")
    page.keyboard.press("Escape")


@pytest.mark.parametrize("way", ["Escape", "button"])
def test_an_answer_that_is_stopped_keeps_its_text(
    slow_chat: ConsolePage, slow_platform: RunningPlatform, way: str
) -> None:
    page = slow_chat.page
    page.fill("#chat-box", "Go on for long")
    page.keyboard.press("Enter")
    slow_chat.until("document.querySelector('.live .md')?.textContent.length > 20")
    page.keyboard.press("Escape") if way == "Escape" else page.click("#chat-stop")
    page.wait_for_selector(f"{WRITTEN} >> text=stopped")
    said = answers(slow_chat)[0]
    assert len(said) > 20
    assert page.is_visible("#chat-send")
    slow_platform.wait_until_idle()
    page.reload()
    page.wait_for_selector(WRITTEN)
    assert answers(slow_chat) == [said]


def test_an_answer_goes_on_while_another_page_is_shown(slow_chat: ConsolePage) -> None:
    page = slow_chat.page
    page.fill("#chat-box", "Go on for long")
    page.keyboard.press("Enter")
    page.wait_for_selector(".live")
    address = page.evaluate("location.hash")
    page.click("text=Fleet")
    page.wait_for_selector(".tile")
    page.evaluate(f"location.hash = '{address}'")
    page.wait_for_selector(".live .md")
    length = page.evaluate("document.querySelector('.live .md').textContent.length")
    slow_chat.until(f"document.querySelector('.live .md').textContent.length > {length}")
    page.click("#chat-stop")
    page.wait_for_selector(WRITTEN)


def test_an_answer_goes_on_after_a_reload(slow_chat: ConsolePage) -> None:
    page = slow_chat.page
    page.fill("#chat-box", "Go on for long")
    page.keyboard.press("Enter")
    slow_chat.until("document.querySelector('.live .md')?.textContent.length > 100")
    begun = answers(slow_chat)[0]
    page.reload()
    slow_chat.until(f"document.querySelector('.live .md')?.textContent.length > {len(begun)} + 50")
    assert answers(slow_chat)[0].startswith(begun[:100])
    page.click("#chat-stop")
    page.wait_for_selector(f"{WRITTEN} >> text=stopped")


def test_markdown_is_drawn_and_code_copied(chat: ConsolePage) -> None:
    page = chat.page
    answer_with(chat, *({"content": MARKDOWN[at : at + 7]} for at in range(0, len(MARKDOWN), 7)))
    say(chat)
    assert page.inner_text(".md h3") == "Steps"
    assert page.inner_text(".md ol ul strong") == "inner"
    assert page.locator(".md td").all_inner_texts() == ["1", "2"]
    assert page.inner_text(".md-code-head span") == "python"
    assert chat.copied(".md-code button", "Code") == 'print("x < y")  # said'
    assert page.inner_text(".hl-comment") == "# said"
    assert page.locator(".md a").count() == 1
    assert page.get_attribute(".md a", "rel") == "noopener noreferrer"
    assert page.locator("main img, main script").count() == 0
    assert chat.copied("[aria-label='Copy answer']", "Answer") == MARKDOWN


def test_reasoning_and_calls_are_folded(chat: ConsolePage) -> None:
    page = chat.page
    call = {"index": 0, "id": "c", "function": {"name": "get_weather", "arguments": '{"city":"Ulm"}'}}
    answer_with(chat, {"reasoning_content": "Hm. "}, {"reasoning": "Yes."}, {"tool_calls": [call]}, finish="tool_calls")
    say(chat)
    assert not page.is_visible("text=Hm. Yes.")
    page.click("summary:has-text('Reasoning')")
    assert page.is_visible("text=Hm. Yes.")
    page.click("summary:has-text('get_weather')")
    assert '"city": "Ulm"' in page.inner_text(".after pre")
    assert "tool calls" in page.inner_text(".remarks")


def test_reload_and_the_list_keep_conversations(chat: ConsolePage) -> None:
    page = chat.page
    set_option(chat, "temperature", "0")
    say(chat)
    said = answers(chat)
    page.reload()
    page.wait_for_selector(WRITTEN)
    assert answers(chat) == said
    assert page.inner_text("h1") == QUESTION
    page.click("#new-chat")
    page.wait_for_selector(".welcome")
    say(chat, "What is a KV cache?")
    assert page.locator(".shelf-list li").count() == 2
    page.fill("#shelf-search", "running BATCH")
    assert page.locator(".shelf-list li a").all_inner_texts() == [QUESTION]
    page.click(".shelf-list li a")
    page.wait_for_selector(f"h1:has-text('{QUESTION}')")
    page.hover(".shelf-list li")
    page.click(f"[aria-label='Rename {QUESTION}']")
    page.keyboard.type("Batches")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Batches')")
    page.click("[aria-label='Delete Batches']")
    page.wait_for_selector(".welcome")
    assert page.locator(".shelf-list li").count() == 0
    page.fill("#shelf-search", "")
    assert page.locator(".shelf-list li").count() == 1
    page.reload()
    page.wait_for_selector(".welcome")
    assert page.locator(".shelf-list li a").all_inner_texts() == ["What is a KV cache?"]


def test_a_deleted_conversation_comes_back_by_undo(chat: ConsolePage) -> None:
    page = chat.page
    say(chat)
    page.hover(".shelf-list li")
    page.click(f"[aria-label='Delete {QUESTION}']")
    page.wait_for_selector(".welcome")
    page.go_back()
    page.wait_for_selector("text=not in this browser")
    page.click("#undo")
    page.wait_for_selector(WRITTEN)
    page.hover(".shelf-list li")
    page.click(f"[aria-label='Delete {QUESTION}']")
    page.wait_for_selector(".welcome")
    say(chat, "Hello")
    assert page.locator(".shelf-list li a").all_inner_texts() == ["Hello"]


def test_answers_and_messages_have_versions(chat: ConsolePage) -> None:
    page = chat.page
    answer_with(chat, {"content": "first"})
    say(chat)
    answer_with(chat, {"content": "second"})
    page.click("[aria-label='Regenerate']")
    page.wait_for_selector(".md:has-text('second')")
    assert page.inner_text(".versions") == "2 / 2"
    page.click("[aria-label='Previous version']")
    page.wait_for_selector(".md:has-text('first')")
    assert page.inner_text(".versions") == "1 / 2"
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Next version"
    page.click("[aria-label='Edit message']")
    page.keyboard.press("Control+A")
    page.keyboard.type("Another question")
    answer_with(chat, {"content": "third"})
    page.keyboard.press("Enter")
    page.wait_for_selector(".md:has-text('third')")
    assert page.inner_text(".user .versions") == "2 / 2"
    page.reload()
    page.wait_for_selector(".md:has-text('third')")
    page.click(".user [aria-label='Previous version']")
    page.wait_for_selector(".md:has-text('first')")


def test_deleting_from_here_on_can_be_undone(chat: ConsolePage) -> None:
    page = chat.page
    say(chat)
    say(chat, "What is a KV cache?")
    page.click(".user [aria-label='Delete from here on'] >> nth=1")
    assert page.locator(".turn").count() == 2
    page.click("#undo")
    assert page.locator(".turn").count() == 4
    page.click(".answer [aria-label='Delete from here on'] >> nth=0")
    page.reload()
    page.wait_for_selector(".turn")
    assert page.locator(".turn").count() == 1


def test_conversations_are_exported_and_imported(chat: ConsolePage, tmp_path: Path) -> None:
    page = chat.page
    say(chat)
    saved = {}
    for kind in ("JSON", "Markdown"):
        page.click("#menu")
        with page.expect_download() as started:
            page.click(f"text=Export as {kind}")
        saved[kind] = tmp_path / started.value.suggested_filename
        started.value.save_as(saved[kind])
    assert saved["Markdown"].read_text().startswith(f"# {QUESTION}\n\n## You\n\n{QUESTION}\n\n## headrace-demo\n\n")
    page.hover(".shelf-list li")
    page.click(f"[aria-label='Delete {QUESTION}']")
    page.wait_for_selector(".welcome")
    page.set_input_files("#import-file", saved["JSON"])
    page.click(".shelf-list li a")
    page.wait_for_selector(WRITTEN)
    page.set_input_files("#import-file", saved["Markdown"])
    page.wait_for_selector(".failure:has-text('holds no conversations')")


def test_two_tabs_keep_what_both_write(chat: ConsolePage) -> None:
    say(chat)
    other = ConsolePage(chat.page.context.new_page(), chat.url)
    other.page.goto(chat.page.url)
    other.page.wait_for_selector(WRITTEN)
    say(other, "What is a KV cache?")
    chat.until("document.querySelectorAll('.turn').length === 4")
    say(chat, "What does TTFT mean?")
    other.page.click("#new-chat")
    other.page.wait_for_selector(".welcome")
    say(other, "Hello")
    chat.until("document.querySelectorAll('.shelf-list li').length === 2")
    chat.page.reload()
    chat.until("document.querySelectorAll('.turn').length === 6")
    assert other.faults == []


@pytest.mark.parametrize("what", ["full", "closed"])
def test_a_browser_that_keeps_nothing_is_told_of(chat: ConsolePage, what: str) -> None:
    full = "IDBObjectStore.prototype.put = () => { throw new DOMException('', 'QuotaExceededError'); };"
    closed = "IDBFactory.prototype.open = () => { throw new DOMException('', 'SecurityError'); };"
    chat.page.add_init_script(full if what == "full" else closed)
    chat.open("chat", "#chat-box")
    say(chat)
    said = chat.page.inner_text(".failure")
    assert ("no room left" if what == "full" else "private window") in said
    say(chat, "What is a KV cache?")


def test_settings_are_sent_kept_and_saved_by_name(chat: ConsolePage) -> None:
    page = chat.page
    page.click("#open-settings")
    given = {
        "system": "Be brief.",
        "temperature": "0.5",
        "top_k": "3",
        "min_p": "0.1",
        "max_tokens": "3",
        "seed": "7",
        "presence_penalty": "9",
    }
    for name, value in given.items():
        page.fill(f"#s-{name}", value)
    assert "Presence penalty must be a number from -2 to 2." in page.inner_text("#settings-drawer")
    page.keyboard.press("Escape")
    page.fill("#chat-box", QUESTION)
    page.keyboard.press("Enter")
    assert "Presence penalty" in page.inner_text(".failure")
    assert page.input_value("#chat-box") == QUESTION
    set_option(chat, "presence_penalty", "1")
    body = body_of(chat, "v1/chat/completions", QUESTION)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    sent = {name: float(value) for name, value in (given | {"presence_penalty": "1"}).items() if name != "system"}
    assert {name: body[name] for name in sent} == sent
    assert {"top_p", "frequency_penalty"}.isdisjoint(body)
    assert "cut at the token limit" in page.inner_text(".remarks")
    page.click("#open-settings")
    page.fill("#preset-name", "brief")
    page.keyboard.press("Enter")
    page.click("text=Clear all")
    assert page.input_value("#s-top_k") == ""
    page.click(".presets li button >> nth=0")
    assert page.input_value("#s-top_k") == "3"
    page.keyboard.press("Escape")
    page.click("#new-chat")
    page.wait_for_selector(".welcome")
    page.click("#open-settings")
    assert page.input_value("#s-system") == "Be brief."


def test_several_answers_and_models_stand_side_by_side(chat: ConsolePage) -> None:
    page = chat.page
    list_models(chat, {"id": "headrace-demo", "can_chat": True}, {"id": "other", "can_chat": True})
    answer_with(chat, {"content": "the same"})
    set_option(chat, "count", "2")
    set_option(chat, "compare", "other")
    assert page.inner_text(".against") == "and other"
    say(chat)
    chat.until("document.querySelectorAll('.columns .turn').length === 4")
    assert page.locator(".columns h2").all_inner_texts() == ["headrace-demo"] * 2 + ["other"] * 2
    page.click("text=Continue with this >> nth=2")
    assert page.locator("[aria-pressed='true']").count() == 1
    assert page.inner_text("[aria-pressed='true']") == "Chosen"
    set_option(chat, "count", "")
    set_option(chat, "compare", "")
    body = body_of(chat, "v1/chat/completions", "More")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert not chat.is_too_wide()


def test_a_base_model_continues_a_text(chat: ConsolePage) -> None:
    """The list says of the bundled model that it has no chat template, and the platform completes texts with it."""
    page = chat.page
    vectors = {"id": "vectors", "embedding_size": 8}
    list_models(chat, vectors, {"id": "headrace-demo", "can_chat": False})
    assert page.locator("#model option").all_inner_texts() == ["headrace-demo (base)"]
    assert "to continue" in page.inner_text(".welcome h2")
    body = body_of(chat, "v1/completions", "Continuous batching")
    assert body["prompt"] == "Continuous batching"
    said = page.inner_text(".answer .raw")
    assert said
    body = body_of(chat, "v1/completions", "It")
    assert body["prompt"].startswith(f"Continuous batching{said[:10]}")
    assert body["prompt"].endswith("\nIt")
    chat.open("playground", "#model")
    assert page.locator("#model option").all_inner_texts() == ["vectors (embedding)", "headrace-demo (base)"]
    assert page.input_value("#model") == "vectors"


def test_the_first_model_that_can_chat_is_chosen(chat: ConsolePage) -> None:
    list_models(chat, {"id": "apes", "can_chat": False}, {"id": "headrace-demo", "can_chat": True})
    assert chat.page.input_value("#model") == "headrace-demo"


def test_a_text_file_goes_with_a_message(chat: ConsolePage, tmp_path: Path) -> None:
    page = chat.page
    names = {"notes.txt": b"KV caches hold keys.", "picture.png": b"\x89PNG\x00\x01", "large.txt": b"a" * 300_000}
    for name, content in names.items():
        (tmp_path / name).write_bytes(content)
    for name in names:
        page.set_input_files("input[type=file][multiple]", tmp_path / name)
        page.wait_for_selector(
            {"notes.txt": ".files li", "picture.png": "text=not a text file"}.get(name, "text=too large")
        )
    assert page.locator(".files li").count() == 1
    body = body_of(chat, "v1/chat/completions", "What do they hold?")
    assert body["messages"][0]["content"] == "File notes.txt:\n```\nKV caches hold keys.\n```\n\nWhat do they hold?"
    assert page.locator(".files li").count() == 0
    page.click(".file summary")
    assert page.inner_text(".file pre") == "KV caches hold keys."


def test_a_file_is_dropped_on_the_page(chat: ConsolePage) -> None:
    page = chat.page
    for kind in ("dragover", "drop"):
        page.evaluate(
            "(kind) => { const dataTransfer = new DataTransfer(); dataTransfer.items.add(new File(['a text'], 'a.md'));"
            "document.body.dispatchEvent(new DragEvent(kind, {dataTransfer, bubbles: true, cancelable: true})); }",
            kind,
        )
    page.wait_for_selector(".files li:has-text('a.md')")
    page.click("[aria-label='Remove a.md']")
    assert page.locator(".files li").count() == 0


def test_the_context_in_use_is_shown(chat: ConsolePage) -> None:
    answer_with(chat, {"content": "x"}, usage={"prompt_tokens": 500, "completion_tokens": 12})
    say(chat)
    assert chat.page.inner_text("#context") == "512 of 2,048 tokens (25.0%)"


def test_a_refusal_is_shown_and_tried_again(chat: ConsolePage) -> None:
    page = chat.page
    set_option(chat, "temperature", "0")
    refusal = json.dumps({"error": {"message": "the queue is full", "code": "overloaded"}})
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=429, body=refusal))
    say(chat)
    assert page.inner_text(".turn .failure") == "the queue is full"
    page.unroute("**/v1/chat/completions")
    page.click("[aria-label='Regenerate']")
    page.wait_for_selector(".md:has-text('running batch')")
    # Browsers write every refusal into their log.
    assert all("429" in text for text in chat.faults)
    chat.faults.clear()


def test_an_answer_leads_to_its_request(chat: ConsolePage) -> None:
    say(chat)
    chat.page.click("text=Inspect")
    chat.page.wait_for_selector(".fall")
    chat.page.go_back()
    chat.page.wait_for_selector(WRITTEN)


def test_answers_made_to_harm_are_shown(chat: ConsolePage) -> None:
    for text in (">" * 10_000, "[" * 10_000 + "](", "- " * 10_000, "word " * 200_000):
        pieces = [{"content": text[at : at + 5000]} for at in range(0, len(text), 5000)]
        answer_with(chat, *pieces)
        say(chat, "Harm me")
    assert not chat.is_too_wide()
    chat.page.reload()
    chat.page.wait_for_selector(WRITTEN)


def test_readers_by_ear_hear_the_whole_answer_once(chat: ConsolePage) -> None:
    page = chat.page
    assert page.get_attribute("#spoken", "aria-live") == "polite"
    page.evaluate(
        "globalThis.said = []; new MutationObserver(() => said.push(document.getElementById('spoken').textContent))"
        ".observe(document.getElementById('spoken'), {childList: true})"
    )
    say(chat)
    chat.until("said.length > 0")
    assert page.evaluate("said.length") == 1
    assert page.evaluate("said[0]") == f"Answer: {answers(chat)[0]}"


@pytest.mark.skipif(not has_axe(), reason=NO_AXE)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1400, 900), (390, 844)], ids=["desk", "phone"])
def test_the_chat_is_accessible(
    browser: Any, demo_platform: RunningPlatform, scheme: str, size: tuple[int, int]
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    with opened_page(browser, demo_platform.http, color_scheme=scheme, viewport=viewport) as chat:
        page = chat.page
        chat.open("chat", ".welcome")
        assert chat.violations() == []
        say(chat)
        answer_with(
            chat, {"reasoning": "Hm."}, {"content": MARKDOWN}, usage={"prompt_tokens": 9, "completion_tokens": 9}
        )
        set_option(chat, "count", "2")
        say(chat, "Show it")
        page.click("[aria-label='Regenerate'] >> nth=1")
        page.wait_for_selector(".versions")
        assert chat.violations() == []
        assert not chat.is_too_wide()
        page.click("#menu")
        assert chat.violations() == []
        page.keyboard.press("Escape")
        page.click("[aria-label='Edit message'] >> nth=0")
        assert chat.violations() == []
        page.keyboard.press("Escape")
        page.click("#open-settings")
        assert chat.violations() == []
        assert not chat.is_too_wide()
        page.keyboard.press("Escape")
        if size[0] < 900:
            page.click("#open-shelf")
            assert chat.violations() == []


def test_the_chat_is_used_by_the_keyboard_alone(chat: ConsolePage) -> None:
    page = chat.page
    say(chat)
    page.keyboard.press("Shift+Tab")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "chat-box"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("n")
    page.wait_for_selector(".welcome")
    chat.until("document.activeElement.id === 'chat-box'")
    page.go_back()
    page.wait_for_selector(WRITTEN)
    page.focus("[aria-label='Copy answer']")
    page.keyboard.press("Enter")
    page.wait_for_selector("#notice:has-text('Answer copied')")
