"""Checkpoints of tiny random models that keep states beside keys and values, with the bundled model's tokenizer."""

import json
from pathlib import Path
from typing import Any

from tests.libs.engine.later_models import LATER_FAMILIES
from tests.libs.engine.tiny_models import make_family
from tokenizers import AddedToken, Tokenizer

from headrace.demo_model import CHECKPOINT

LFM2 = """\
{%- set listed = 'List of tools: <|tool_list_start|>' + (tools | tojson) + '<|tool_list_end|>' if tools else '' %}
{%- if listed %}{{ '<|im_start|>system\n' + listed + '<|im_end|>\n' }}{% endif %}
{%- for message in messages %}
  {%- set content = message.content or '' %}
  {%- if message.role == 'tool' %}
    {%- set content = '<|tool_response_start|>' + content + '<|tool_response_end|>' %}
  {%- endif %}
  {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""
QWEN = """\
{%- if tools %}
  {{- '<|im_start|>system\n' + (tools | tojson) + '<tool_call>\n<function=name>\n<parameter=one><|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
  {{- '<|im_start|>' + message.role + '\n' + (message.content or '').split('</think>')[-1] }}
  {%- for call in message.tool_calls or [] %}
    {{- '<tool_call>\n' + (call.function | tojson) + '\n</tool_call>' }}
  {%- endfor %}
  {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %}
"""
TEMPLATES = {"lfm2": LFM2, "qwen3_5_multimodal": QWEN}
"""Templates whose models are trained on calls in a list of Python, and on reasoning and calls in XML."""
SPECIAL_TOKENS = {"lfm2": ("<|tool_call_start|>", "<|tool_call_end|>")}
"""Special tokens beside those of the bundled model."""
STATE_MODELS = tuple(TEMPLATES)
CONTEXT_TOKENS = 2048


def save_state_model(folder: Path, name: str) -> Path:
    """Writes the checkpoint of one of STATE_MODELS into a folder; returns the folder."""
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in SPECIAL_TOKENS.get(name, ())])
    size = tokenizer.get_vocab_size()
    settings: dict[str, Any] = {"vocab_size": size, "max_position_embeddings": CONTEXT_TOKENS}
    if nested := LATER_FAMILIES[name].get("text_config"):
        settings["text_config"] = nested | settings
    make_family(folder, name, **settings)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATES[name]}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [size - 1]}))
    return folder
