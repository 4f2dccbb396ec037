"""Grammar of an answer that may hold reasoning, calls of tools, and content of a given form."""

import json
from collections.abc import Mapping
from typing import Any

from headrace.errors import Unsupported
from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.syntax.call_syntax import CallSyntax
from headrace.gateway.chat.syntax.lark_literals import ANYTHING, LarkLiterals
from headrace.gateway.chat.tools.argument_schema import argument_schema
from headrace.gateway.chat.tools.tool_use import ToolUse
from headrace.v1.generation_pb2 import (
    GRAMMAR_KIND_CHOICE,
    GRAMMAR_KIND_JSON_OBJECT,
    GRAMMAR_KIND_JSON_SCHEMA,
    GRAMMAR_KIND_LARK_WITH_SCHEMAS,
    GRAMMAR_KIND_REGEX,
)

MAX_CALLS = 16
"""Maximum number of calls in one answer: a model that repeats itself would call for ever."""
CONTENT = "content"


class AnswerGrammar:
    """Rules of a Lark grammar, and the schemas that they name."""

    def __init__(self, literals: LarkLiterals, answer_marks: tuple[str, str] = ("", "")) -> None:
        """`answer_marks`: texts that may stand around content of a given form, and around calls. Empty: none may."""
        self._literals = literals
        self._rules: list[str] = []
        self._end_mark = answer_marks[1]
        self._before = self._after = ""
        if all(answer_marks):
            start, end = map(literals.write, answer_marks)
            self._before, self._after = f"({start} margin)? ", f" (margin {end})?"
            self._rules.append("margin: /\\s{0,4}/")
        self._schemas: dict[str, Mapping[str, Any]] = {}

    def add_content(self, wanted: OutputGrammar) -> None:
        """Adds the form that the client wants of the content. Raises Unsupported for a grammar in Lark, which cannot be
        part of another."""
        self._rules.append(f"{CONTENT}: {self._before}({self._form(wanted)}){self._after}")

    def _form(self, wanted: OutputGrammar) -> str:
        """Returns an expression for content. Raises Unsupported."""
        if wanted.kind in (GRAMMAR_KIND_JSON_SCHEMA, GRAMMAR_KIND_JSON_OBJECT):
            self._schemas[f"{CONTENT}_schema"] = json.loads(wanted.text) if wanted.text else {"type": "object"}
            return f"@{CONTENT}_schema"
        if wanted.kind == GRAMMAR_KIND_REGEX:
            pattern = wanted.text.replace("\\/", "/").replace("/", "\\/")
            return f"/{pattern}/"
        if wanted.kind == GRAMMAR_KIND_CHOICE:
            return " | ".join(json.dumps(choice, ensure_ascii=False) for choice in json.loads(wanted.text))
        param = wanted.parameter or "grammar"
        raise Unsupported(f"{param} cannot be combined with tools or reasoning: use a JSON schema", param=param)

    def add_calls(self, syntax: CallSyntax, tool_use: ToolUse, content: OutputGrammar | None) -> None:
        """Adds calls, and beside them content where an answer need not call."""
        self.add_call(syntax, tool_use)
        write = self._literals.write
        several = f"({write(syntax.separator)} call){{0,{MAX_CALLS - 1}}}" if tool_use.allows_several else ""
        opening = write(syntax.opening.removeprefix(syntax.marker))
        self._rules.append(f"calls: {opening} call {several} {self._closing(syntax)}")
        self._rules += self._around_calls(syntax, tool_use, content)

    def add_call(self, syntax: CallSyntax, tool_use: ToolUse) -> None:
        """Adds the rule `call`, for one call of any tool."""
        write = self._literals.write
        for index, tool in enumerate(tool_use.tools):
            schema = argument_schema(tool)
            rules, schemas = syntax.arguments.rules(f"arguments_{index}", schema, self._literals)
            head, after = self._head(syntax, tool.name), write(syntax.after_arguments)
            self._rules += [f"call_{index}: {head} arguments_{index} {after}", *rules]
            self._schemas |= schemas
        self._rules.append(f"call: {' | '.join(f'call_{index}' for index in range(len(tool_use.tools)))}")
        if syntax.before_number:
            self._rules.append("number: /0|[1-9][0-9]{0,3}/")

    def _head(self, syntax: CallSyntax, name: str) -> str:
        """Returns the expression for all that precedes the arguments of a call. A number is the model's own: it counts
        the calls of the conversation."""
        write = self._literals.write
        if not syntax.before_number:
            return write(syntax.before_name + name + syntax.before_arguments)
        return f"{write(syntax.before_name + name + syntax.before_number)} number {write(syntax.before_arguments)}"

    def add_rule(self, name: str, *parts: str) -> None:
        """Adds a rule of names of rules, and of literal texts in quotes."""
        written = (self._literals.write(part[1:-1]) if part.startswith("'") else part for part in parts)
        self._rules.append(f"{name}: {' '.join(written)}")

    def add_thought(self, start: str, end: str, is_open: bool, answer: str) -> None:
        """Adds the start rule: reasoning, which the prompt may have opened already, and then `answer`."""
        write = self._literals.write
        self._rules.append(self._literals.anything_until("thought", end))
        self._rules.append("gap: /\\s{0,4}/")
        opened = f"thought gap {answer}"
        self._rules.append(f"start: {opened}" if is_open else f"start: {answer} | {write(start)} {opened}")

    def start_with(self, rule: str) -> None:
        self._rules.append(f"start: {rule}")

    def written(self, parameter: str) -> OutputGrammar:
        """Returns the grammar, which errors call `parameter`."""
        lark = "\n".join(["%llguidance {}", *self._rules])
        text = json.dumps({"lark": lark, "schemas": self._schemas}, ensure_ascii=False)
        return OutputGrammar(GRAMMAR_KIND_LARK_WITH_SCHEMAS, text, parameter)

    def _closing(self, syntax: CallSyntax) -> str:
        """Returns an expression for the end of calls. Each form is one text: a grammar takes the longest that
        may come, which could be the separator."""
        forms = [syntax.closing]
        if self._end_mark:
            forms += [syntax.closing + between + self._end_mark for between in ("", "\n")]
        written = " | ".join(map(self._literals.write, forms))
        return f"({written})" if self._end_mark else written

    def _around_calls(self, syntax: CallSyntax, tool_use: ToolUse, content: OutputGrammar | None) -> list[str]:
        """Returns the rule `answer`, and the rules that it needs."""
        marker = self._literals.write(syntax.marker)
        if tool_use.is_required:
            return [f"answer: {self._before}{marker} calls"]
        if content is not None:
            return [f"answer: {CONTENT} | {self._before}{marker} calls"]
        if not syntax.marker:
            first = (syntax.opening + syntax.before_name)[0]
            return ['answer: calls | free | ""', f"free: /[^\\s\\{first}](.|\\n)*/"]
        if self._literals.is_special(syntax.marker):
            return [f"answer: free | free {marker} calls", f"free: {ANYTHING}"]
        until = self._literals.anything_until("until", syntax.marker)
        return ["answer: free | until calls", f"free: {ANYTHING}", until]
