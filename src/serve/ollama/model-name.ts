/** Names as Ollama's clients write them: with a tag, which is `latest` where none is written. */
import type { ServeContext } from "../http/context.js";
import { resolveModelName } from "../openai/model-name.js";

const LATEST = ":latest";

/** The name of the server's list that the client's stands for. */
export function modelOf(context: ServeContext, name: string | undefined): string {
  const isKnown = name === undefined || context.modelNames.includes(name) || !name.endsWith(LATEST);
  return resolveModelName(context, isKnown ? name : name.slice(0, -LATEST.length));
}

/** @example taggedName("mill-base") // "mill-base:latest" */
export const taggedName = (name: string): string => (name.includes(":") ? name : name + LATEST);
