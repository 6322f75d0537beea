/** Which command lines have the launcher build the probes first. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";

type NeedsProbes = (args: readonly string[], hasGpu: () => boolean) => boolean;
const file = join(repositoryRoot(), "scripts/setup/probes-needed.js");
const { needsProbes } = (await import(pathToFileURL(file).href)) as { readonly needsProbes: NeedsProbes };

const MODEL = ["plan", "--model", "llama-3.1-8b"] as const;

test.each([
  [[...MODEL], true],
  [[...MODEL, "--hardware", "cpu"], true],
  [["plan", "costs", "--model=llama-3.1-8b", "--hardware=detect"], true],
  [[...MODEL, "--memory-bandwidth", "50"], true],
  [[...MODEL, "--memory-bandwidth", "50", "--multiply-speed=400"], false],
  [[...MODEL, "--hardware", "h100x2"], false],
  [[...MODEL, "--hardware=cpu-16"], false],
  [[...MODEL, "--help"], false],
  [["plan"], false],
  [["serve", "--model", "m.gguf"], false],
])("%j: %s", (args, expected) => {
  expect(needsProbes(args, () => false)).toBe(expected);
});

test("a machine with a GPU is planned by its GPU, unless its CPU is named", () => {
  expect(needsProbes([...MODEL], () => true)).toBe(false);
  expect(needsProbes([...MODEL, "--hardware", "cpu"], () => true)).toBe(true);
});
