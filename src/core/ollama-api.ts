/** What an engine's server and the gateway say alike in Ollama's API. */
import { MillraceError } from "./errors.js";

/** The release of Ollama whose API ours is: clients compare it with what they need. */
export const OLLAMA_API_VERSION = "0.12.6";

const LATEST = ":latest";

/** The name of the server's list that the client's stands for: a name without a tag has the tag `latest`. */
export function withoutTag(name: string, names: readonly string[]): string {
  return names.includes(name) || !name.endsWith(LATEST) ? name : name.slice(0, -LATEST.length);
}

/** @example withTag("mill-base") // "mill-base:latest" */
export const withTag = (name: string): string => (name.includes(":") ? name : name + LATEST);

/** Ollama's paths that make, move or remove models. */
const CHANGES_MODELS = /^\/api\/(push|create|copy|delete|blobs)(\/|$)/;

/** The remedy on a path of Ollama's that is not there; undefined for others. */
export function ollamaPathHint(path: string): string | undefined {
  if (!CHANGES_MODELS.test(path)) return undefined;
  return "a client changes no models here: they are those that the server was started with";
}

/** The answer to POST /api/pull for a model that is there: its object, or the lines of its stream. */
export function pulled(isStream: boolean): { readonly type: string; readonly text: string } {
  const success = { status: "success" };
  if (!isStream) return { type: "application/json", text: JSON.stringify(success) };
  const lines = [{ status: "pulling manifest" }, success].map((each) => `${JSON.stringify(each)}\n`);
  return { type: "application/x-ndjson", text: lines.join("") };
}

/** The refusal of POST /api/pull for a model that is not there. @param remedy how such a model comes to the server */
export function notPulled(name: string, remedy: string): MillraceError {
  return new MillraceError(
    "model_not_found",
    `expected one of the models that this server was started with, got ${JSON.stringify(name.slice(0, 80))}`,
    { param: "model", hint: remedy },
  );
}

/** Options of Ollama's runner, which are ignored: the server's own settings hold. */
export const OLLAMA_RUNNER_OPTIONS = [
  "num_ctx",
  "num_batch",
  "num_gpu",
  "main_gpu",
  "num_thread",
  "num_keep",
  "use_mmap",
  "use_mlock",
  "low_vram",
  "numa",
  "f16_kv",
  "logits_all",
  "vocab_only",
  "embedding_only",
  "repeat_last_n",
  "penalize_newline",
  "mirostat_tau",
  "mirostat_eta",
] as const;

/** Options for ways of sampling that are not here, with the value that turns each off, which alone is taken. */
export const OLLAMA_OFF_OPTIONS = { typical_p: 1, tfs_z: 1, mirostat: 0 } as const;
