/**
 * `millrace convert`, and a server with `--quantization`, leave nothing of an unfinished copy, whichever signals end
 * them.
 */
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, watch } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "../scripts/temp-tree.js";

/** Sends the signals as soon as something is in `folder`. @returns what was there, and the exit code */
async function stopped(
  args: readonly string[],
  folder: string,
  signals: readonly NodeJS.Signals[],
  env: Readonly<Record<string, string>> = {},
) {
  const isBegun = new Promise<void>((resolve) => {
    const watcher = watch(folder, () => {
      watcher.close();
      resolve();
    });
  });
  const child = spawn(process.execPath, [join(repositoryRoot(), "bin/millrace.js"), ...args], {
    stdio: "ignore",
    env: { ...process.env, ...env },
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  await isBegun;
  const begun = readdirSync(folder);
  for (const signal of signals) child.kill(signal);
  return { begun, exitCode: await ended };
}

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
  const { begun, exitCode } = await stopped(args, folder, signals);
  expect(begun).toEqual([expect.stringMatching(new RegExp(`^${name}\\.partial-`))]);
  expect(exitCodes).toContain(exitCode);
  expect(readdirSync(folder)).toEqual([]);
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("nothing is left of the copy of --quantization after %s", async (signal, expected) => {
  const cache = tempTree({});
  const folder = join(cache, "quantized");
  mkdirSync(folder);
  const model = join(repositoryRoot(), "models/mill-base.gguf");
  const args = ["engine", "--port", "0", "--model", model, "--quantization", "q4_k_m"];
  const { begun, exitCode } = await stopped(args, folder, [signal], { MILLRACE_CACHE: cache });
  expect(begun).toEqual([expect.stringContaining(".gguf.partial-")]);
  expect(exitCode).toBe(expected);
  expect(readdirSync(folder)).toEqual([]);
});
