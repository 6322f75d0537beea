/** Programs of Prometheus, and the files that `millrace observe render` writes for it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Watched } from "../../src/observe/watched.js";
import { tempTree } from "../scripts/temp-tree.js";
import { runCli } from "./run-cli.js";

const find = (program: string): string | undefined =>
  (process.env.PATH ?? "")
    .split(":")
    .map((folder) => join(folder, program))
    .find(existsSync);
/** Undefined where it is not installed. */
export const PROMTOOL = find("promtool");
export const PROMETHEUS = find("prometheus");

/** Renders into a new folder. @returns its path */
export async function rendered(kind: Watched["kind"], ...args: readonly string[]): Promise<string> {
  const folder = join(tempTree({}), "watch");
  const ended = await runCli("observe", "render", "--kind", kind, "--out", folder, ...args);
  expect(ended).toMatchObject({ exitCode: 0, stderr: "" });
  return folder;
}
