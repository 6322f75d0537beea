/** Options without effect and files that cannot be written are refused before any measurement. */

import { Command } from "commander";
import { expect, test } from "vitest";
import { assertFolders } from "../output/bench-report.js";
import { addLoadOptions, type LoadFlags, planFromFlags } from "./bench-options.js";

const planOf = (...args: string[]) => {
  const command = addLoadOptions(new Command()).parse(args, { from: "user" });
  return planFromFlags(command.opts<LoadFlags>(), command);
};

test.each([
  ["--prompts a.jsonl --scale 1", "with --prompts, got --scale"],
  ["--prompts a.jsonl --scenario quick", "with --prompts, got --scenario"],
  ["--arrivals constant", "--rate with --arrivals"],
])("%s is refused", async (args, message) => {
  await expect(planOf(...args.split(" "))).rejects.toMatchObject({ message: expect.stringContaining(message) });
});

test("defaults do not count as given", async () => {
  expect((await planOf()).cells).toHaveLength(3);
  expect((await planOf("--arrivals", "constant", "--rate", "1")).cells).toHaveLength(1);
});

test("a file in a missing folder is refused", () => {
  assertFolders({ out: "a.json" });
  expect(() => assertFolders({ svg: "/nowhere/a.svg" })).toThrow("expected --svg in a folder that exists");
});
