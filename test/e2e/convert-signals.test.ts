/** `millrace convert` leaves nothing of an unfinished copy, whichever signals end it. */
import { spawn } from "node:child_process";
import { readdirSync, watch } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "../scripts/temp-tree.js";

test.each([
  ["copy.gguf", ["SIGINT"], [130]],
  ["copy", ["SIGINT"], [130]],
  // Both are heard at the same time, and the second ends the process at once; or else after the first one's end.
  ["copy.gguf", ["SIGINT", "SIGTERM"], [130, 143, null]],
  ["copy", ["SIGINT", "SIGTERM"], [130, 143, null]],
] as const)("nothing is left of %s after %j", async (name, signals, exitCodes) => {
  const folder = tempTree({});
  const model = join(repositoryRoot(), "models/mill-base.gguf");
  const args = ["convert", "--model", model, "--out", join(folder, name), "--dtype", "float32"];
  const isBegun = new Promise<void>((resolve) => {
    const watcher = watch(folder, () => {
      watcher.close();
      resolve();
    });
  });
  const child = spawn(process.execPath, [join(repositoryRoot(), "bin/millrace.js"), ...args], { stdio: "ignore" });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  await isBegun;
  expect(readdirSync(folder)).toEqual([expect.stringMatching(new RegExp(`^${name}\\.partial-`))]);
  for (const signal of signals) child.kill(signal);
  expect(exitCodes).toContain(await ended);
  expect(readdirSync(folder)).toEqual([]);
});
