// Plays with a conversation's tree as the chat does, and prints what each step shows.

import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import "./tiny_dom.mjs";

const { Conversation, ROOT } = await import(process.argv[2]);
const folder = dirname(fileURLToPath(process.argv[2]));
const { asJson, asMarkdown, readTransfer, fileName } = await import(`${folder}/transfer.js`);
const { requestOf, wholeText } = await import(`${folder}/prompt.js`);
const { firstTalker, kindOf } = await import(`${folder}/models.js`);
const { remarks } = await import(`${folder}/turn.js`);
const { readAttachment } = await import(`${folder}/attachment.js`);

const user = (content, more = {}) => ({ role: "user", content, ...more });
const answer = (content, more = {}) => ({ role: "assistant", content, model: "m", ...more });
const shown = (conversation) => conversation.path().map((node) => node.content);
const copyOf = (conversation) => new Conversation(structuredClone(conversation.record()));
const refusal = (run) => { try { run(); return null; } catch (error) { return error.message; } };
const file = (name, bytes) => ({ name, size: bytes.length, text: async () => new TextDecoder().decode(bytes), arrayBuffer: async () => Uint8Array.from(bytes).buffer });
const text = (content) => new TextEncoder().encode(content);

const talk = new Conversation();
const first = talk.add(ROOT, user("  One question\nof two lines"));
const a = talk.add(first.id, answer("a"));
const more = talk.add(a.id, user("more"));
const b = talk.add(first.id, answer("b"));
const out = { title: talk.title, branch: shown(talk), versions: talk.versions(b).length };
talk.choose(a);
out.back = shown(talk);
const c = talk.add(first.id, answer("c", { group: "g" }));
talk.add(first.id, answer("d", { group: "g" }));
out.groups = talk.versions(c).map((group) => group.map((node) => node.content));

const other = copyOf(talk);
const there = other.add(other.path().at(-1).id, user("from there"));
const here = talk.add(talk.path().at(-1).id, user("from here"));
talk.merge(other.record());
out.merged = [here, there].map((node) => talk.nodes.has(node.id));
talk.change(a, { content: "newer" });
talk.merge(other.record());
out.newer = a.content;

const gone = talk.remove(a);
out.removed = [talk.nodes.has(a.id), talk.nodes.has(more.id)];
talk.merge(other.record());
out.staysRemoved = talk.nodes.has(a.id);
other.merge(talk.record());
out.removedThere = other.nodes.has(a.id);
talk.restore(gone);
other.merge(talk.record());
out.restored = [talk.nodes.has(more.id), other.nodes.has(more.id)];
talk.choose(a);

const sent = (model, path, settings, index) => requestOf(model, path, settings, index);
const chat = { id: "m", can_chat: true }, base = { id: "b", can_chat: false };
out.chat = sent(chat, [user("q", { files: [{ name: "n.md", text: "x\n````\ny" }] }), answer(""), user("r")], { system: "Be brief.", temperature: "0.5", seed: "7", compare: "x" }, 1);
out.base = sent(base, [user("Once"), answer(" upon a time"), user("And then")], { max_tokens: "5" });
out.baseTokens = sent(base, [user("Once")], {}).body.max_tokens;
out.refusals = [{ temperature: "3" }, { top_k: "1.5" }, { seed: "x" }, { min_p: "" }].map((settings) => refusal(() => sent(chat, [], settings)));
out.talker = [[{ id: "e", embedding_size: 3 }, base, chat], [{ id: "e", embedding_size: 3 }, base], [{ id: "u" }]].map((models) => firstTalker(models).id);
out.kinds = [{ embedding_size: 3 }, base, chat, {}].map(kindOf);

out.markdown = asMarkdown(talk);
out.name = fileName("What is it? / really", "md");
const [read] = await readTransfer(file("x.json", text(asJson([talk.record()]))));
out.transferred = { shown: shown(new Conversation(read)), isNew: read.id !== talk.id, title: read.title, count: read.nodes.length };
const node = (id, parent) => ({ id, parent, role: "user", content: "" });
out.wrong = [];
for (const wrong of ["{", "[]", '{"format": "headrace-conversations", "conversations": [{}]}', asJson([{ title: "t", nodes: [node("a", "a")] }]), asJson([{ title: "t", nodes: [node("a", "b"), node("b", "a")] }]),
  asJson([{ title: "t", nodes: [{ ...node("a", "root"), role: "system" }] }])]) out.wrong.push(await readTransfer(file("x", text(wrong))).then(() => null, (error) => error.message));

const timed = { usage: { completion: 50 }, ms: 2000, finish: "stop" };
out.remarks = [timed, { ...timed, ms: 150 }, { ...timed, finish: "length" }, { ...timed, finish: null, isStopped: true }, { ms: 900, finish: "tool_calls" }, { error: "x" }].map((one) => remarks(one, false));
out.files = [];
for (const given of [file("a.txt", text("é")), file("b.png", [137, 80, 0, 1]), file("c.txt", [255, 254]), file("d.txt", new Uint8Array(300 * 1024))]) out.files.push(await readAttachment(given).catch((error) => error.message));
out.whole = wholeText(user("", { files: [{ name: "f", text: "t" }] }));
console.log(JSON.stringify(out));
