"""Uses that a template makes of a field, read off its tree."""

import jinja2
import pytest

from headrace.tokenizer.template.field_uses import Use, field_uses


def uses(source: str, field: str = "content") -> frozenset[Use]:
    return field_uses(jinja2.Environment().parse("{% for m in messages %}" + source + "{% endfor %}"), field)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("{{ m.content }}", {Use.TEXT}),
        ("{{ m['content'] | trim }}", {Use.TEXT}),
        ("{{ '<' + m.content + '>' }}", {Use.TEXT}),
        ("{{ '<' ~ (m.content | default('')) ~ '>' }}", {Use.TEXT}),
        ("{{ m.content.split('x')[-1] }}", {Use.TEXT}),
        ("{{ m.content[2:] }}", {Use.TEXT}),
        ("{% set c = m.content %}{{ c }}", {Use.TEXT}),
        ("{% macro show(x) %}{{ x }}{% endmacro %}{{ show(m.content) }}", {Use.TEXT}),
        ("{{ m.content | tojson }}", {Use.OBJECT}),
        ("{% for k, v in m.content.items() %}{{ k }}{% endfor %}", {Use.OBJECT}),
        ("{% for k, v in m.content | items %}{{ k }}{% endfor %}", {Use.OBJECT}),
        ("{{ m.content.city }}", {Use.OBJECT}),
        ("{% for p in m.content %}{{ p.text }}{% endfor %}", {Use.PARTS}),
        ("{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text }}{% endfor %}", {Use.PARTS}),
        ("{{ (m.content | selectattr('type', 'equalto', 'text') | first).text }}", {Use.PARTS}),
        ("{{ m.content[0].text }}", {Use.PARTS}),
        ("{{ (m.content | first).text }}", {Use.PARTS}),
        ("{{ m.content | map(attribute='text') | join }}", {Use.PARTS}),
        ("{{ m.content | first }}", {Use.TEXT}),
        ("{{ m.content[0]['text'] }}", {Use.PARTS}),
        ("{% set c = m.content %}{% for p in c %}{{ p.text }}{% endfor %}", {Use.PARTS}),
        ("{% macro f(x) %}{% for p in x %}{{ p.text }}{% endfor %}{% endmacro %}{{ f(m.content) }}", {Use.PARTS}),
        ("{% if m.content is string %}{{ m.content }}{% endif %}", {Use.STRING_TEST, Use.TEXT}),
        ("{{ m.content if m.content is not string else 'x' }}", {Use.STRING_TEST, Use.TEXT}),
        ("{% if m.content is none %}{% endif %}", {Use.NONE_TEST}),
        ("{% if m.content is not none %}{% endif %}", {Use.NONE_TEST}),
        ("{% if m['content'] == none %}{% endif %}", {Use.NONE_TEST}),
        ("{% set c = m.content %}{% if c != None %}{% endif %}", {Use.NONE_TEST}),
        ("{% if m.content %}{% endif %}", set()),
        ("{{ m.role }}{{ content_of(m) }}", set()),
    ],
)
def test_uses_are_found_under_any_name(source: str, found: set[Use]) -> None:
    assert uses(source) == found
