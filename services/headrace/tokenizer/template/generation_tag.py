"""The tag that marks, in chat templates, what the model wrote: it prints what it encloses.

Programs that train models read the places off it. `{% generation %}` is transformers' own, and no part of Jinja.
"""

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser


class GenerationTag(Extension):
    """Extension for `{% generation %}` and `{% endgeneration %}`."""

    tags = frozenset({"generation"})  # type: ignore[assignment]

    def parse(self, parser: Parser) -> nodes.Node:
        """Reads the tag. Names that are set inside stay inside, as in transformers."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)
