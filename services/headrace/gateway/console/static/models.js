// The models of the platform: which of them can chat, and what is known of each.

import { get } from "./api.js";
import { bytes, count } from "./format.js";

/** `chat`: answers conversations; `base`: continues a text; `embedding`: makes vectors. */
export const kindOf = (model) => (model.embedding_size ? "embedding" : model.can_chat === false ? "base" : "chat");

/** The name of a model in a list to choose from, with what it is where it cannot chat. */
export const titleOf = (model) => (kindOf(model) === "chat" ? model.id : `${model.id} (${kindOf(model)})`);

export async function readModels(signal) {
  return (await get("v1/models", signal)).data;
}

/** The models that a conversation may be held with, in the server's order. */
export const talkers = (models) => models.filter((model) => kindOf(model) !== "embedding");

/** The model to begin with: the first that can chat, or the first that writes at all. */
export const firstTalker = (models) => talkers(models).find((model) => kindOf(model) === "chat") ?? talkers(models)[0];

function parameters(number) {
  if (!number) return null;
  const [unit, size] = number >= 1e9 ? ["billion", 1e9] : number >= 1e6 ? ["million", 1e6] : ["", 1];
  return `${(number / size).toFixed(number / size < 10 && unit ? 1 : 0)} ${unit}`.trim();
}

/** What a model is, for people. `weightBytes`: memory of its weights, if it is known. */
export function factsOf(model, weightBytes) {
  return [
    ["Context", model.max_model_length ? `${count(model.max_model_length)} tokens` : null, "Tokens of the conversation and of the answer together"],
    ["Precision", model.precision || null, "How the weights are stored"],
    ["Parameters", parameters(model.parameter_count)],
    ["Weights", weightBytes ? bytes(weightBytes) : null, "Memory that the weights take"],
    ["Architecture", (model.architecture ?? "").replace(/(?:For|Model).*$/, "") || null],
    ["Adapter of", model.parent || null],
  ];
}

/** Memory of the weights of a model on one worker, or null where the fleet does not say. */
export async function readWeightBytes(name, signal) {
  const { workers } = await get("headrace/fleet", signal).catch(() => ({ workers: [] }));
  return workers.find((worker) => worker.model === name)?.weight_bytes ?? null;
}
