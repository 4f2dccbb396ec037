// The same request from a terminal and from Python.

const usesKey = (key) => (key ? "$HEADRACE_API_KEY" : "");

/** A POST as a command for a POSIX shell. */
export function asCurl(path, body, urgency, key) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [`curl -sN ${location.origin}/${path}`, "-H 'content-type: application/json'"];
  if (usesKey(key)) lines.push('-H "authorization: Bearer $HEADRACE_API_KEY"');
  if (urgency !== "default") lines.push(`-H 'x-headrace-class: ${urgency}'`);
  return [...lines, `-d ${quoted(JSON.stringify(body, null, 2))}`].join(" \\\n  ");
}

/** A value as Python writes it: JSON but for three names. */
function python(value, indent = "") {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const inner = `${indent}    `;
  const isList = Array.isArray(value);
  const entries = isList ? value.map((one) => python(one, inner)) : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one, inner)}`);
  if (!entries.length) return isList ? "[]" : "{}";
  return `${isList ? "[" : "{"}\n${entries.map((entry) => `${inner}${entry},\n`).join("")}${indent}${isList ? "]" : "}"}`;
}

/** A chat with OpenAI's SDK. Fields that the SDK does not know travel as its `extra_body`. */
export function asPython(body, urgency, key) {
  const { timings, ...known } = body;
  const fields = Object.entries(known).map(([name, value]) => `    ${name}=${python(value, "    ")},`);
  if (timings) fields.push('    extra_body={"timings": True},');
  if (urgency !== "default") fields.push(`    extra_headers={"x-headrace-class": ${JSON.stringify(urgency)}},`);
  return [...(key ? ["import os", ""] : []), "from openai import OpenAI", "", `client = OpenAI(base_url="${location.origin}/v1", api_key=${key ? 'os.environ["HEADRACE_API_KEY"]' : '"unused"'})`,
    "stream = client.chat.completions.create(", ...fields, ")", "for chunk in stream:", "    if chunk.choices:", '        print(chunk.choices[0].delta.content or "", end="", flush=True)', ""].join("\n");
}

export function embeddingAsPython(body, key) {
  return [...(key ? ["import os", ""] : []), "from openai import OpenAI", "", `client = OpenAI(base_url="${location.origin}/v1", api_key=${key ? 'os.environ["HEADRACE_API_KEY"]' : '"unused"'})`,
    `answer = client.embeddings.create(model=${JSON.stringify(body.model)}, input=${python(body.input)})`, "print(len(answer.data[0].embedding))", ""].join("\n");
}
