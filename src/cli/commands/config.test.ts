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

test("a valid file is reported with its models", async () => {
  const path = file("models:\n  - { name: m, model: m.gguf, engine: vllm }\n");
  const { stdout, exitCode } = await runMain("config", "check", path);
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/is valid\nmodel +engine +from\nm +vllm +m\.gguf/);
});

test("a paid API without a url of its own is shown with the provider's", async () => {
  const attach = "[{ api-key: sk-a, model-name: gpt-5.2 }, { api-key: sk-b, model-name: gpt-5.2 }]";
  const path = file(`models:\n  - { name: gpt, engine: openai, attach: ${attach} }\n`);
  const { stdout } = await runMain("config", "check", path);
  expect(stdout).toMatch(/\ngpt +openai +https:\/\/api\.openai\.com\n/);
});

test("every mistake is reported with its place and a hint", async () => {
  const path = file("port: x\nmodels:\n  - { name: m, modle: m.gguf }\n");
  const { stderr, exitCode } = await runMain("config", "check", path);
  expect(exitCode).toBe(1);
  expect(stderr).toContain(`${path}:1:1: expected port to be an integer in [0, 65535], got "x" [config_value]`);
  expect(stderr).toContain(
    `${path}:3:16: expected only known keys in models[0], got "modle" [config_unknown_key]\n  hint: write model`,
  );
});

test("a missing model is a warning, since the file may be meant for another machine", async () => {
  const path = file("models:\n  - { name: m, model: models/nope.gguf }\n  - { name: n, model: org/n, engine: vllm }\n");
  const { stdout, stderr, exitCode } = await runMain("config", "check", path);
  expect([exitCode, stdout]).toEqual([0, expect.stringContaining("is valid")]);
  const warning = 'expected the model "m" at models/nope.gguf, got no such file here [file_unreadable]';
  expect(stderr).toMatch(
    new RegExp(`^warning: .*:2:\\d+: ${warning.replace(/[[\]]/g, "\\$&")}\\n  hint: check the path`),
  );
  expect(stderr).not.toContain("org/n");
});

test("prints JSON with --json", async () => {
  const { stdout, exitCode } = await runMain("config", "check", "--json", file("models: 3"));
  expect([exitCode, JSON.parse(stdout)]).toMatchObject([1, { valid: false, problems: [{ line: 1, path: "models" }] }]);
});

test("a missing file is an error", async () => {
  const { stderr, exitCode } = await runMain("config", "check", "/nowhere.yaml");
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("file_unreadable")]);
});

test("the schema is JSON", async () => {
  const { stdout } = await runMain("config", "schema");
  expect(JSON.parse(stdout)).toMatchObject({ type: "object", required: ["models"] });
});
