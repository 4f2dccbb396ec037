"""Filtering of one answer of a model."""

from collections import defaultdict
from dataclasses import replace

from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.reading.call_delta import CallDelta
from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.filter.text_filter import TextFilter


class AnswerFilter:
    """Filters reasoning, content and the arguments of each call by themselves."""

    def __init__(self, rules: FilterRules) -> None:
        self._reasoning = TextFilter(rules)
        self._content = TextFilter(rules)
        self._calls: defaultdict[int, TextFilter] = defaultdict(lambda: TextFilter(rules))

    @property
    def blocked_by(self) -> str:
        """Name of the detector whose finding ended the answer."""
        return self._content.blocked_by or self._reasoning.blocked_by or self._blocked_call()

    def _blocked_call(self) -> str:
        return next((each.blocked_by for each in self._calls.values() if each.blocked_by), "")

    def push(self, part: AnswerPart, is_last: bool) -> AnswerPart:
        """Returns what may be shown of a part, and of what was held back before it."""
        shown = AnswerPart(
            reasoning=self._reasoning.push(part.reasoning, is_last or bool(part.content or part.calls)),
            content=self._content.push(part.content, is_last),
        )
        for delta in part.calls:
            arguments = self._calls[delta.index].push(delta.arguments)
            if arguments or delta.call_id:
                shown.calls.append(replace(delta, arguments=arguments))
        if is_last:
            for index, held in self._calls.items():
                if rest := held.push("", is_last=True):
                    shown.calls.append(CallDelta(index, arguments=rest))
        return shown
