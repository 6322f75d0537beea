/**
 * Facts from a model's header: its family, its weights' type, and its memory need. Read once for each state of its
 * file.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { toMillraceError } from "../core/errors.js";
import { readGguf } from "../formats/gguf/read.js";
import { CONFIG_NAME, readHfFolder } from "../formats/hf/folder.js";
import type { StoredModel } from "../formats/hub/stored.js";
import { summarizeGguf } from "../model/gguf/summary.js";
import { summarizeHf } from "../model/hf/summary.js";
import type { PlannedModel } from "../plan/planned-model.js";
import { readPlannedModel } from "../plan/read-model.js";

interface ModelFacts {
  readonly family: string | undefined;
  readonly quantization: string;
  readonly numParameters: number;
  /** For plans of memory; undefined: an encoder, or a model that plans do not know. */
  readonly planned: PlannedModel | undefined;
}

type Shown = Pick<StoredModel, "path" | "format">;

const cache = new Map<string, { readonly state: string; readonly facts: ModelFacts | string }>();

/** Throws the errors of its format's reader. */
async function read({ path, format }: Shown): Promise<ModelFacts> {
  const planned = await readPlannedModel(path).catch(() => undefined);
  if (format === "GGUF") {
    const gguf = readGguf(path);
    const { weightType, numParameters } = summarizeGguf(gguf);
    return { family: gguf.metadata.string("general.architecture"), quantization: weightType, numParameters, planned };
  }
  const folder = readHfFolder(path);
  const { weightType, numParameters } = summarizeHf(folder);
  return { family: folder.config.string("model_type"), quantization: weightType, numParameters, planned };
}

/** @returns a text with the reason if there are no facts */
export async function factsOf(model: Shown): Promise<ModelFacts | string> {
  const file = model.format === "GGUF" ? model.path : join(model.path, CONFIG_NAME);
  const stats = await stat(file).catch(() => undefined);
  const state = `${stats?.ino} ${stats?.size} ${stats?.mtimeMs}`;
  const known = cache.get(model.path);
  if (known?.state === state) return known.facts;
  // Other failures also become a reason: one damaged file must not hide the others.
  const facts = await read(model).catch((thrown: unknown) => toMillraceError(thrown).message);
  cache.set(model.path, { state, facts });
  return facts;
}
