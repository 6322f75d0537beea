/** From a model's name to its place on this disk: a path, a download from the hub, or a bundled model. */
import { statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { packageRoot } from "../core/package-root.js";
import { formatBytes } from "../core/quantities.js";
import type { StartStage } from "../core/stages.js";
import type { StoredModel } from "./hub/stored.js";

export interface LocatedModel {
  /** The file (the first shard of a split one), or the model's folder. */
  readonly path: string;
  /** The files with weights, in order. */
  readonly files: readonly string[];
  /** The model's default name: the file's, or the hub's repository. */
  readonly name: string;
}

/** The bundled models; the first is the default. */
export const BUNDLED_MODELS = ["mill-base", "mill-student"] as const;
export type BundledModel = (typeof BUNDLED_MODELS)[number];

export function bundledModelPath(name: BundledModel = "mill-base"): string {
  return join(packageRoot(), "models", `${name}.gguf`);
}

/** The bundled models that exist on disk. */
export function listBundled(): readonly StoredModel[] {
  return BUNDLED_MODELS.flatMap((name) => {
    const path = bundledModelPath(name);
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return [];
    return [{ name, path, format: "GGUF" as const, numBytes: stats.size, lastUsedMs: stats.atimeMs, isComplete: true }];
  });
}

/** @example nameOf("/models/qwen-00001-of-00002.gguf") // "qwen" */
export function nameOf(spec: string): string {
  if (spec.startsWith("hf:")) return spec.slice("hf:".length).split(":")[0]!;
  return basename(resolve(spec)).replace(/(-\d{5}-of-\d{5})?\.gguf$/, "");
}

/**
 * @param spec a path or hf:org/repo[:file]; undefined = the bundled model
 * @param isWholeRepository for an engine that reads the hub's repository itself
 */
export async function locateModel(
  spec: string | undefined,
  startStage: StartStage,
  isWholeRepository = false,
): Promise<LocatedModel> {
  const { resolveModelPath } = await import("./hub.js");
  const stage = startStage("model");
  const wanted = spec ?? bundledModelPath();
  const { path, files } = await resolveModelPath(wanted, {
    onProgress: ({ file, receivedBytes, totalBytes }) => {
      stage.update(`${file}: ${formatBytes(receivedBytes)} of ${formatBytes(totalBytes)}`);
    },
    isWholeRepository,
    onWait: () => stage.note("another process is downloading it; waiting"),
  });
  stage.done(files.length > 1 ? `${path} and ${files.length - 1} more` : path);
  return { path, files, name: nameOf(wanted) };
}
