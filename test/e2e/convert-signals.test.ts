/** `millrace convert` leaves nothing of an unfinished copy, whichever signals end it. */
import { spawn } from "node:child_process";
import { readdirSync, watch } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "../scripts/temp-tree.js";

test.each([
  ["a file", "copy.gguf", ["SIGINT"], 130],
  ["a folder", "copy", ["SIGINT"], 130],
  ["a file", "copy.gguf", ["SIGINT", "SIGTERM"], 143],
  ["a folder", "copy", ["SIGINT", "SIGTERM"], 143],
] as const)("nothing is left of %s (%s) after %j, and the exit code is %i", async (_kind, name, signals, exitCode) => {
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
  const ended = new Promise((resolve) => child.once("exit", resolve));
  await isBegun;
  expect(readdirSync(folder)).toEqual([expect.stringMatching(new RegExp(`^${name}\\.partial-`))]);
  // Both are heard at the same time; the second asks for no more waiting.
  for (const signal of signals) child.kill(signal);
  expect(await ended).toBe(exitCode);
  expect(readdirSync(folder)).toEqual([]);
});
