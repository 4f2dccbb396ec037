"""Markdown as the console draws it: what each mark becomes, what stays while more arrives, and texts made to harm."""

from pathlib import Path
from typing import Any

import pytest
from tests.services.gateway.console.console_script import NO_NODE, NODE, run_script

pytestmark = [pytest.mark.process, pytest.mark.skipif(NODE is None, reason=NO_NODE)]

LINK = "_blank noopener noreferrer"
CODE_HEAD = "<div.md-code-head><span>{0}</span><button.quiet small>Copy</button></div>"
CODE = f"<div.md-code>{CODE_HEAD}<pre><code>{{1}}</code></pre></div>"
DRAWN = {
    "Hello, world.": "<p>Hello, world.</p>",
    "one\ntwo\n\nthree": "<p>one<br></br>two</p><p>three</p>",
    "# A\n## B\n#### C\n## D": "<h3.md-1>A</h3><h4.md-2>B</h4><h5.md-4>C</h5><h4.md-2>D</h4>",
    "### First ###\n# Next": "<h3.md-3>First</h3><h3.md-1>Next</h3>",
    "#no heading": "<p>#no heading</p>",
    "a *b* **c** _d_ __e__ ~~f~~ ***g***": (
        "<p>a <em>b</em> <strong>c</strong> <em>d</em> <strong>e</strong> <del>f</del> <em><strong>g</strong></em></p>"
    ),
    "**a *b* c**": "<p><strong>a <em>b</em> c</strong></p>",
    "snake_case_name and 2 * 3 * 4": "<p>snake_case_name and 2 * 3 * 4</p>",
    "**open and *other": "<p>**open and *other</p>",
    "`a *b*` and ``c ` d``": "<p><code>a *b*</code> and <code>c ` d</code></p>",
    "`unclosed": "<p>`unclosed</p>",
    r"\*no\* \[x\](y)": "<p>*no* [x](y)</p>",
    "a<br>b <b>c</b>": "<p>a<br></br>b <b>c</b></p>",
    "- a\n- b\n  - c\n    - d\n- e": (
        "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p><ul><li><p>d</p></li></ul></li></ul></li><li><p>e</p></li></ul>"
    ),
    "3. a\n   more\n4. b": "<ol 3><li><p>a<br></br>more</p></li><li><p>b</p></li></ol>",
    "1. a\n   - b\n2. c": "<ol><li><p>a</p><ul><li><p>b</p></li></ul></li><li><p>c</p></li></ol>",
    "- a\n\n- b": "<ul.loose><li><p>a</p></li><li><p>b</p></li></ul>",
    "- a\n* b": "<ul><li><p>a</p></li></ul><ul><li><p>b</p></li></ul>",
    "- [x] done\n- [ ] not": "<ul><li><p>☑ done</p></li><li><p>☐ not</p></li></ul>",
    "In the year\n1990. Then": "<p>In the year<br></br>1990. Then</p>",
    "> a\n> > b\n\nc": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>",
    "a\n\n---\n\n* * *": "<p>a</p><hr></hr><hr></hr>",
    "```\na < b\n```": CODE.format("text", "a &lt; b").replace("&lt;", "<"),
    "1. x\n   ```sh\n   a\n\n     b\n   ```\n2. y": (
        "<ol><li><p>x</p>" + CODE.format("sh", "a\n\n  b") + "</li><li><p>y</p></li></ol>"
    ),
    '```python\nif x: return "a"  # b\n```': CODE.format(
        "python",
        '<span.hl-word>if</span> x: <span.hl-word>return</span> <span.hl-text>"a"</span>  <span.hl-comment># b</span>',
    ),
    "| a | b |\n|---|--:|\n| 1 | `2` |\n| 3": (
        "<div.scroll md-table><table><thead><tr><th>a</th><th.to-end>b</th></tr></thead><tbody>"
        "<tr><td>1</td><td.to-end><code>2</code></td></tr><tr><td>3</td><td.to-end></td></tr></tbody></table></div>"
    ),
    '[a *b*](https://x.org/c_(d) "t")': f"<p><a https://x.org/c_(d) {LINK}>a <em>b</em></a></p>",
    "see https://x.org/a_b, or <mailto:a@x.org>.": (
        f"<p>see <a https://x.org/a_b {LINK}>https://x.org/a_b</a>, or <a mailto:a@x.org {LINK}>a@x.org</a>.</p>"
    ),
    "![alt](https://x.org/p.png)": f"<p><a https://x.org/p.png {LINK}>alt</a></p>",
    "[a](javascript:alert(1)) [b](/c) [d](data:text/html,x)": "<p><span>a</span> <span>b</span> <span>d</span></p>",
    "[a](java\tscript:x) [b]( https://x.org": f"<p>[a](java\tscript:x) [b]( <a https://x.org/ {LINK}>https://x.org</a></p>",
    "<script>alert(1)</script>": "<p><script>alert(1)</script></p>",
}
HOSTILE = {
    "quotes": ">" * 10_000 + "x",
    "spaced quotes": "> " * 10_000 + "x",
    "lists": "- " * 10_000 + "x",
    "nested lists": "\n".join("  " * depth + "- x" for depth in range(1000)),
    "brackets": "[" * 10_000 + "]" * 10_000,
    "links": "[a](" * 25_000,
    "ends of links": "[a](https://x.org" * 5_000 + ")",
    "stars": "*a " * 30_000,
    "pairs": "*a" * 25_000 + "*" * 25_000,
    "deep pairs": "**a *b " * 10_000 + "* **" * 10_000,
    "backticks": "".join("`" * size + "a" for size in range(1, 440)),
    "addresses": "https://" * 10_000,
    "parentheses": "https://x.org/" + ")" * 80_000,
    "one line": "word " * 200_000,
    "one line of marks": "*_`[(<h~!\\" * 100_000,
    "as long as is read": "*_`[(<h~!\\" * 10_000,
    "fence": "~" * 500_000 + "a" * 500_000 + "`",
    "heading": "#" + " " * 1_000_000 + "\u2028",
    "rule": "- " * 500_000,
    "table": "|a" * 300 + "\n" + "|-" * 300 + "\n" + ("|b" * 300 + "\n") * 300,
    "comments": "```js\n" + "/*" * 20_000 + "\n```",
    "texts": "```python\n" + "'''" * 6_000 + '"' * 9_999 + "\n```",
    "lines": "a\n\n" * 50_000,
    "lines of tables": "a|b\n" * 50_000,
    "angles": "<https:" * 50_000 + "<br" * 50_000,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("markdown")


def draw(folder: Path, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(run_script("markdown_page.mjs", "markdown.js", given, folder))


def test_each_mark_becomes_what_it_means(folder: Path) -> None:
    shown = draw(folder, [{"text": text} for text in DRAWN])
    assert {text: one["outline"] for text, one in zip(DRAWN, shown, strict=True)} == DRAWN


def test_a_text_in_pieces_is_drawn_as_the_whole(folder: Path) -> None:
    """Also one character at a time, and several texts as one, whose blocks end where the next begins."""
    texts = [*DRAWN, "\n\n".join(DRAWN)]
    whole = draw(folder, [{"text": text} for text in texts])
    pieces = draw(folder, [{"text": text, "steps": len(text)} for text in texts])
    assert [one["outline"] for one in pieces] == [one["outline"] for one in whole]


def test_closed_blocks_stay(folder: Path) -> None:
    steps = 100
    (shown,) = draw(folder, [{"text": "A *first* block.\n\n" + "More of it.\n\n" * 50, "steps": steps}])
    assert shown["kept"] > 0.8 * steps


def test_code_has_its_label_and_colors_while_it_grows(folder: Path) -> None:
    text = '```python\nif x:\n    y = "a"\n    z'
    (shown,) = draw(folder, [{"text": text, "steps": len(text)}])
    words = '<span.hl-word>if</span> x:\n    y = <span.hl-text>"a"</span>\n    '
    assert shown["live"] == CODE.format("python", words)


def test_what_is_strong_shows_before_its_end(folder: Path) -> None:
    (shown,) = draw(folder, [{"text": "A **strong wor", "steps": 1}])
    assert shown["outline"] == "<p>A **strong wor</p>"
    (shown,) = draw(folder, [{"text": "A **strong word** here", "steps": 2}])
    assert shown["live"] == "<p>A <strong>strong</strong></p>"


def test_texts_made_to_harm_neither_hang_nor_overflow(folder: Path) -> None:
    """A text read again and again would take minutes; the slowest takes half a second."""
    shown = draw(folder, [{"text": text} for text in HOSTILE.values()])
    spent = {name: round(one["milliseconds"]) for name, one in zip(HOSTILE, shown, strict=True)}
    assert {name: milliseconds for name, milliseconds in spent.items() if milliseconds > 5000} == {}
    assert max(one["depth"] for one in shown) < 100
