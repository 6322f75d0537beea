import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";

const file = (text: string): string => {
  const path = join(tempTree({}), "millrace.yaml");
  writeFileSync(path, text);
  return path;
};

test("a valid file is said to be so, with its models", async () => {
  const path = file("models:\n  - { name: m, model: m.gguf, engine: vllm }\n");
  const { stdout, exitCode } = await runMain("config", "check", path);
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/is valid\nmodel +engine +from\nm +vllm +m\.gguf/);
});

test("every mistake is told with its place and what to do", async () => {
  const path = file("port: x\nmodels:\n  - { name: m, modle: m.gguf }\n");
  const { stderr, exitCode } = await runMain("config", "check", path);
  expect(exitCode).toBe(1);
  expect(stderr).toContain(`${path}:1:1: expected port to be an integer in [0, 65535], got "x" [config_value]`);
  expect(stderr).toContain(
    `${path}:3:16: expected only known keys in models[0], got "modle" [config_unknown_key]\n  hint: write model`,
  );
});

test("as JSON for programs", async () => {
  const { stdout, exitCode } = await runMain("config", "check", "--json", file("models: 3"));
  expect([exitCode, JSON.parse(stdout)]).toMatchObject([1, { valid: false, problems: [{ line: 1, path: "models" }] }]);
});

test("a file that is not there", async () => {
  const { stderr, exitCode } = await runMain("config", "check", "/nowhere.yaml");
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("file_unreadable")]);
});

test("the schema is JSON", async () => {
  const { stdout } = await runMain("config", "schema");
  expect(JSON.parse(stdout)).toMatchObject({ type: "object", required: ["models"] });
});
