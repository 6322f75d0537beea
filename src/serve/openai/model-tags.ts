/** The served names and the model's facts in Ollama's form. */
import { createHash } from "node:crypto";
import { withTag } from "../../core/ollama-api.js";
import type { ServeContext } from "../http/context.js";

/** @example parameterSize(6_200_000) // "6.2M" */
function parameterSize(count: number): string {
  const [divisor, unit] = count >= 1e9 ? [1e9, "B"] : [1e6, "M"];
  return `${(count / divisor).toFixed(1)}${unit}`;
}

export function detailsOf({ engine: { info } }: ServeContext): object {
  return {
    parent_model: "",
    format: "gguf",
    family: info.architecture,
    families: [info.architecture],
    parameter_size: parameterSize(info.numParameters),
    quantization_level: info.weightType,
  };
}

/** A hash of the model's facts instead of Ollama's hash of the model's files, so that large files need not be read. */
export function digestOf({ engine: { info } }: ServeContext): string {
  const facts = [info.architecture, info.weightType, info.numParameters, info.weightBytes];
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex");
}

export const startOf = ({ createdAtSeconds }: ServeContext): string => new Date(1000 * createdAtSeconds).toISOString();

export function modelEntries(context: ServeContext): readonly object[] {
  const { weightBytes: size } = context.engine.info;
  const common = { size, digest: digestOf(context), details: detailsOf(context) };
  return context.modelNames.map((name) => ({ name: withTag(name), model: withTag(name), ...common }));
}

/** The answer of /api/tags. llama-server's /v1/models has it too, beside OpenAI's fields. */
export function tagsObject(context: ServeContext): { readonly models: readonly object[] } {
  const facts = { capabilities: capabilitiesOf(context), modified_at: startOf(context) };
  return { models: modelEntries(context).map((entry) => ({ ...entry, ...facts })) };
}

/** As in Ollama, only models that cannot answer have `embedding`: clients leave those out of their chat models. */
export function capabilitiesOf({ engine: { info }, chatFormat }: ServeContext): readonly string[] {
  const isAnswering = info.tasks.includes("generate");
  return [
    ...(isAnswering ? ["completion"] : []),
    ...(!isAnswering && info.tasks.includes("embed") ? ["embedding"] : []),
    ...(chatFormat.takesTools ? ["tools"] : []),
    ...(chatFormat.hasReasoning ? ["thinking"] : []),
  ];
}
