/** The part of Ollama's API with the same answers from an engine's server and the gateway. */
import { createHash } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { ollamaErrorBody } from "./error-body.js";
import { MillraceError } from "./errors.js";
import type { Pull } from "./model-library.js";

/** The Ollama release that our API matches: clients compare it with their requirements. */
export const OLLAMA_API_VERSION = "0.12.6";

const LATEST = ":latest";

/** Maps the client's name to a name in the server's list: in Ollama, a name without a tag has the tag `latest`. */
export function withoutTag(name: string, names: readonly string[]): string {
  return names.includes(name) || !name.endsWith(LATEST) ? name : name.slice(0, -LATEST.length);
}

/** @example withTag("mill-base") // "mill-base:latest" */
export const withTag = (name: string): string => (name.includes(":") ? name : name + LATEST);

/** Ollama's temperature is unbounded; OpenAI's ends at 2. */
export const takenTemperature = (value: unknown): unknown => (typeof value === "number" ? Math.min(value, 2) : value);

/** Ollama's paths that create, move or remove models. */
const CHANGES_MODELS = /^\/api\/(push|create|copy|blobs)(\/|$)/;

/** The hint for a path of Ollama's API that this server lacks; undefined for other paths. */
export function ollamaPathHint(path: string): string | undefined {
  if (!CHANGES_MODELS.test(path)) return undefined;
  return "models are not made here: /api/pull fetches one of the hub";
}

/** The name of a hub model without the tag `latest`, which carries no information. */
export const withoutLatest = (name: string): string => (name.endsWith(LATEST) ? name.slice(0, -LATEST.length) : name);

const lineOf = (value: object): string => `${JSON.stringify(value)}\n`;

const PULL_NEWS_MS = 250;

/**
 * The lines of a download, which continues when nobody reads them.
 *
 * @param isLeaving whether the server is ending; the remaining lines are then left out
 */
export async function* pullLines(pull: Pull, requestId: string, isLeaving: () => boolean): AsyncGenerator<string> {
  yield lineOf({ status: "pulling manifest" });
  const { model } = pull.status();
  // Clients draw one bar per digest. It is a hash of the model's name, since the files' hash is known only at the end.
  const digest = `sha256:${createHash("sha256").update(model).digest("hex")}`;
  let last = "";
  for (let isOver = false; !isOver && !isLeaving(); ) {
    isOver = await Promise.race([pull.ended.then(() => true), wait(PULL_NEWS_MS, false)]);
    const { file, receivedBytes: completed, totalBytes: total } = pull.status();
    if (file === undefined) continue;
    const line = lineOf({ status: `pulling ${file}`, digest, total, completed });
    if (line !== last) yield line;
    last = line;
  }
  const { state } = pull.status();
  if (state === "done") {
    for (const status of ["verifying sha256 digest", "writing manifest", "success"]) yield lineOf({ status });
  } else yield lineOf(ollamaErrorBody(pullFailure(pull), requestId));
}

/** The answer in one object. Throws the download's error. */
export async function pulledWhole(pull: Pull): Promise<string> {
  await pull.ended;
  if (pull.status().state !== "done") throw pullFailure(pull);
  return JSON.stringify({ status: "success" });
}

function pullFailure(pull: Pull): MillraceError {
  const { error, state, model } = pull.status();
  return (
    error ??
    new MillraceError("pull_ended", `expected the download of ${model} to end well, got one that is ${state}`, {
      hint: "ask again: it goes on from there",
    })
  );
}

/** The answer to POST /api/pull for a present model: its object, or the lines of its stream. */
export function pulled(isStream: boolean): { readonly type: string; readonly text: string } {
  const success = { status: "success" };
  if (!isStream) return { type: "application/json", text: JSON.stringify(success) };
  const lines = [{ status: "pulling manifest" }, success].map(lineOf);
  return { type: "application/x-ndjson", text: lines.join("") };
}

/** The refusal of POST /api/pull for a missing model. @param remedy how such a model comes to the server */
export function notPulled(name: string, remedy: string): MillraceError {
  return new MillraceError(
    "model_not_found",
    `expected one of the models that this server was started with, got ${JSON.stringify(name.slice(0, 80))}`,
    { param: "model", hint: remedy },
  );
}
