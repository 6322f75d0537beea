/** Drafts in a new fleet's YAML, and in the presets that ship. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { repositoryRoot } from "../../../test/helpers/fixtures.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { configKeys } from "./candidates.js";
import { presetWith, speculationYaml } from "./preset.js";

const HEADS = configKeys({
  ...DEFAULT_SPECULATIVE_CONFIG,
  method: "heads",
  draftModelPath: "/m/heads.gguf",
  numSpeculativeTokens: 4,
});
const preset = (name: string): string => readFileSync(join(repositoryRoot(), "presets", name), "utf8");
const written = (text: string, keys = HEADS, name = "mill"): string => presetWith(text, "p.yaml", name, keys, "why");

test("a new fleet has the drafts among its options", () => {
  expect(parse(speculationYaml({ name: "mill", path: "/m/mill.gguf" }, HEADS))).toEqual({
    models: [
      {
        name: "mill",
        model: "/m/mill.gguf",
        options: { "speculative-config": { method: "heads", model: "/m/heads.gguf", num_speculative_tokens: 4 } },
      },
    ],
  });
});

test("a preset gets the drafts and the reason, and keeps everything else, comments included", () => {
  const before = preset("cpu-8b.yaml");
  const after = written(before);
  const { models } = parse(before);
  models[0].options["speculative-config"] = HEADS;
  expect(parse(after)).toEqual({ models });
  const lines = (text: string): string[] => text.split("\n").filter((line) => line.startsWith("#"));
  expect(lines(after)).toEqual(
    lines(before).map((line) => (line.startsWith("# speculation:") ? "# speculation: why" : line)),
  );
  expect(written(after, configKeys(NO_SPECULATION))).toMatch(/speculative-config:\n +method: none\n/);
  expect(written(written(after)), "again").toBe(after);
});

test("drafts in args are replaced there; of several models, the one of that name is meant", () => {
  const text = `models:
  - name: other
    attach: [http://127.0.0.1:1]
  - name: mill # the small one
    args: [--speculative-config, '{"method":"ngram"}', --seed, "1"]
  - {name: bare, model: x}
`;
  const { models } = parse(written(text));
  expect(models[1].args).toEqual(["--speculative-config", JSON.stringify(HEADS), "--seed", "1"]);
  expect(written(text)).toContain("# the small one");
  const joined = text.replace("--speculative-config, '", "'--speculative-config=");
  expect(parse(written(joined)).models[1].args[0]).toBe(`--speculative-config=${JSON.stringify(HEADS)}`);
  expect(parse(written(joined)).models[1].options).toBeUndefined();
  expect(parse(written(text, HEADS, "bare")).models[2].options).toEqual({ "speculative-config": HEADS });
  expect(() => written(text, HEADS, "none")).toThrow(/one with the name none in p\.yaml, got 3 models/);
});

test.each([
  [preset("h100-8b.yaml"), /expected the engine millrace in p\.yaml, got vllm/],
  ["models: [", /expected YAML in p\.yaml/],
  ["port: 1\n", /expected a list of models/],
  ["models: 3\n", /expected a list of models/],
  ["models: [1]\n", /got 0 models/],
])("what is no preset of this engine is refused (%#)", (text, message) => {
  expect(() => written(text)).toThrow(message);
});
