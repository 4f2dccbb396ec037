"""Random values of the chart, made from its schema."""

import re
from collections.abc import Iterator
from random import Random
from typing import Any

Schema = dict[str, Any]
HANDED_ON = ("extraObjects", "global")
"""Values that the chart hands on as they are."""
TEXTS = ("", "a", "x-1", "n", "1", "null", "true", "{{ fail }}", "a: b", "- x", "#", "'", '"', "a b", "ü", "9e9", "a/b")
"""Texts for fields without a pattern, many of which are no texts where YAML has no quotes around them."""
PATTERNED = (
    *("", "10Gi", "1.5Ti", "500", "sha256:" + "0" * 64, "nats://n.messaging:4222", "org/name", "org/name:Q4_K_M"),
    *("/srv/models", "/", "collector:4317", "15s", "1m", "w", "llama-3", "A_b", "m.1", "qwen3:8b"),
)
"""Texts of which each pattern of the schema allows some."""
TIMED = ("gateway", "tokenizer", "scheduler", "cache", "workerDefaults")


class RandomValues:
    """Draws values that a schema allows, and now and then one that it does not."""

    def __init__(self, schema: Schema, seed: int) -> None:
        self._schema = schema
        self._random = Random(seed)

    def draw(self) -> dict[str, Any]:
        """In two of three, Pods have the time to stop; one in six is spoiled at one place."""
        values: dict[str, Any] = self._of(self._schema, 0.4)
        if self._random.random() < 2 / 3:
            values.setdefault("nats", {}).update(preStopSeconds=1, graceSeconds=2)
            for part in _timed(values):
                part.update(preStopSeconds=1, drainSeconds=2, graceSeconds=self._random.randint(8, 100))
        if self._random.random() < 1 / 6:
            section = self._random.choice(sorted(self._schema["properties"]))
            values[section] = self._random.choice([{"unknown": 1}, 1, "text", [1]])
        return values

    def _of(self, schema: Schema, share: float) -> Any:
        """`share`: probability of each property that may be left out."""
        if "$ref" in schema:
            return self._of(self._schema["$defs"][schema["$ref"].rpartition("/")[2]], share)
        if "enum" in schema:
            return self._random.choice(schema["enum"])
        match schema.get("type"):
            case "boolean":
                return self._random.random() < 0.5
            case "integer":
                return self._integer(schema)
            case "string":
                return self._text(schema)
            case "array":
                return [self._of(schema["items"], share) for _ in range(self._random.randint(0, 2))]
        return self._object(schema, share)

    def _integer(self, schema: Schema) -> int:
        low = schema["minimum"]
        return self._random.choice([low, low + 1, min(schema.get("maximum", 100), low + self._random.randint(2, 50))])

    def _text(self, schema: Schema) -> str:
        allowed = [text for text in PATTERNED if "pattern" in schema and re.search(schema["pattern"], text)]
        return self._random.choice(allowed or [text for text in TEXTS if len(text) >= schema.get("minLength", 0)])

    def _object(self, schema: Schema, share: float) -> dict[str, Any]:
        if parts := schema.get("properties"):
            required = schema.get("required", ())
            chosen = [name for name in parts if name in required or self._random.random() < share]
            return {name: self._of(parts[name], 0.4) for name in chosen if name not in HANDED_ON}
        if schema.get("additionalProperties", {}).get("type") == "string":
            return {f"k{number}": self._random.choice(TEXTS) for number in range(self._random.randint(0, 2))}
        if "propertyNames" in schema:
            return {"log_level": self._random.choice([*TEXTS, 1, 2.5, True, ["a", "b"], {"a": "b"}])}
        return {}


def _timed(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in TIMED:
        yield values.setdefault(name, {})
    yield from values.get("workers", [])
