/** The facts that, with the options, determine the bytes of a quantised copy. */
import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { createBackend } from "../backend/create/create-backend.js";
import { TEXT_FILES } from "../convert/hf/write-folder.js";
import { packageVersion } from "../core/package-root.js";
import { contentHashOf } from "../formats/content-hash.js";
import { isHfFolder } from "../formats/hf/folder.js";
import { openModel } from "../model/open-model.js";

/** Incremented when the encoders' output changes. */
export const ENCODERS = 3;

/** Versions of the files on which a copy of the model depends. @param path of a model on this disk */
export function versionsOf(path: string): readonly (readonly [file: string, size: number, mtimeMs: number])[] {
  const { files } = openModel(path);
  const texts = isHfFolder(path) ? TEXT_FILES.map((name) => join(path, name)).filter((file) => existsSync(file)) : [];
  return [...files, ...texts].map((file) => {
    const { size, mtimeMs } = statSync(file);
    return [file, size, mtimeMs];
  });
}

/** JSON values, by their names in errors. */
export type Identity = Readonly<Record<string, unknown>>;

/**
 * Runs with equal identities write equal bytes.
 * @param options by flag @param texts contents, by flag, of the files that the run has read
 */
export function identityOf(model: string, options: Identity, texts: Readonly<Record<string, string | undefined>>) {
  const backend = createBackend({ numThreads: 1 });
  const { isa } = backend.description;
  backend.destroy();
  const contents = Object.entries(texts).map(([flag, file]) => [
    `text of ${flag}`,
    file === undefined ? null : contentHashOf([file], () => {}),
  ]);
  return {
    "version of millrace": [packageVersion(), ENCODERS],
    "instruction set": isa,
    "model, or one that has changed": versionsOf(model).map(([file, ...version]) => [resolve(file), ...version]),
    ...options,
    ...Object.fromEntries(contents),
  };
}
