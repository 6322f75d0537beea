/**
 * Ollama's requests may name tools freely: `server.tool`, `fs/read`. OpenAI's API and the formats of calls have only
 * plain names, so such a tool gets one on its way to the model, and the client sees its own name.
 */
import { createHash } from "node:crypto";

const PLAIN = /^[\w-]{1,64}$/;
const TAKEN = /^[\w./:-]{1,256}$/;

/** @returns a plain name unchanged, and also names that the schema refuses */
export function plainToolName(name: string): string {
  if (PLAIN.test(name) || !TAKEN.test(name)) return name;
  const digest = createHash("sha256").update(name).digest("hex").slice(0, 8);
  return `${name.replace(/[^\w-]/g, "_").slice(0, 55)}_${digest}`;
}

/** A request's tools in OpenAI's form, with a type and plain names. Other values stay unchanged. */
export function plainTools(tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools;
  return tools.map((tool) => {
    const name = nameOf(tool);
    if (name === undefined) return tool;
    return { ...tool, type: tool.type ?? "function", function: { ...tool.function, name: plainToolName(name) } };
  });
}

/** @returns calls under the client's names for its tools, which are read with the first call */
export function withGivenNames(tools: unknown): (calls: readonly object[]) => readonly object[] {
  let given: Map<string, string> | undefined;
  return (calls) => {
    if (calls.length === 0) return calls;
    given ??= givenNames(tools);
    return calls.map((call) => {
      const name = given!.get(nameOf(call) ?? "");
      return name === undefined ? call : { ...call, function: { ...(call as { function: object }).function, name } };
    });
  };
}

function givenNames(tools: unknown): Map<string, string> {
  const given = new Map<string, string>();
  for (const tool of Array.isArray(tools) ? tools : []) {
    const name = nameOf(tool);
    if (name !== undefined) given.set(plainToolName(name), name);
  }
  return given;
}

function nameOf(holder: unknown): string | undefined {
  const name = (holder as { readonly function?: { readonly name?: unknown } | null } | null)?.function?.name;
  return typeof name === "string" ? name : undefined;
}
