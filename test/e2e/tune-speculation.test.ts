/**
 * `millrace tune speculation`, as a process: on the bundled model and its heads at toy size, into a YAML that the
 * server takes.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { acquireFileLock } from "../../src/core/file-lock.js";
import type { Cell, SpeculationTuning } from "../../src/lab/speculation/search.js";
import type { ClassCount } from "../../src/lab/speculation/task-classes.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { type Ended, runCli } from "../helpers/run-cli.js";
import { runMain } from "../helpers/run-main.js";
import { post } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

interface Told extends SpeculationTuning {
  readonly classes: readonly ClassCount[];
  readonly cells: readonly Cell[];
  readonly numSkipped: number;
  readonly speculativeConfig: Readonly<Record<string, unknown>>;
  readonly command: string;
}

const HEADS = join(repositoryRoot(), "models/mill-heads.gguf");
/** A model of another vocabulary. */
const STRANGER = join(repositoryRoot(), "test/fixtures/models/stories260k.gguf");
const user = (content: string) => [{ role: "user", content }];

/** Five edits, two of a class of their own, one in JSON, and one that no server takes. */
function requests(): string {
  const letter = "the wheel of the upper mill turns again since Monday, and the miller asks for two sacks of rye.";
  const edits = Array.from({ length: 5 }, (_, index) => ({
    messages: [
      ...user(`Write Bea ${index} instead of Ada: Dear Ada, ${letter}`),
      { role: "assistant", content: `Dear Bea ${index}, ${letter}` },
    ],
  }));
  const format = {
    type: "json_schema",
    json_schema: { name: "p", schema: { type: "object", properties: { a: { type: "integer" } } } },
  };
  return [
    ...edits.map(({ messages }) => ({ messages, temperature: 0 })),
    ...[1, 2].map((n) => ({
      messages: user(`Tell me a story about ${n} foxes.`),
      class: "tales",
      temperature: 0.8,
      seed: n,
    })),
    { messages: user("Say something in JSON."), response_format: format },
    { messages: user("Too warm."), temperature: 9 },
  ]
    .map((line) => JSON.stringify(line))
    .join("\n");
}

const TINY = [
  "--max-tokens",
  "6",
  "--per-round",
  "2",
  "--threads",
  "1",
  "--depths",
  "2",
  "--drafter",
  `ngram,${HEADS},${STRANGER}`,
];

const tuned = async (out: string, file: string, ...args: readonly string[]): Promise<Told> => {
  const { stdout, stderr, exitCode } = await runCli(
    "tune",
    "speculation",
    "--requests",
    file,
    "--out",
    out,
    "--json",
    ...TINY,
    ...args,
  );
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
  return JSON.parse(stdout) as Told;
};

const PATIENCE = { timeout: 300_000 };

test(
  "each class and temperature is measured with each drafter; the choice stands in YAML and preset, and is served",
  PATIENCE,
  async () => {
    const preset = "# speculation: none yet.\nmodels:\n  - name: mill-base\n    model: models/mill-base.gguf # ours\n";
    const out = tempTree({ "requests.jsonl": requests(), "preset.yaml": preset });
    const file = join(out, "requests.jsonl");
    const told = await tuned(out, file, "--preset", join(out, "preset.yaml"));
    expect(told.numSkipped).toBe(1);
    const counted = told.classes.map(({ name, numRequests, rules }) => [name, numRequests, rules[0]!.because]);
    expect(counted.sort()).toEqual([
      ["edit", 5, "the answer repeats its prompt"],
      ["json", 1, "response_format"],
      ["tales", 2, "its own label"],
    ]);
    expect(told.cells.map(({ className, temperature }) => `${className} at ${temperature}`).sort()).toEqual([
      "edit at 0",
      "json at 0",
      "tales at > 0",
    ]);
    expect(told.cells.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
    expect(told.ranking.map(({ candidate: { name } }) => name).sort()).toEqual([
      "auto, 15 tokens",
      "mill-heads.gguf, 2 tokens",
      "ngram, 2 tokens",
    ]);
    for (const { mix, cells } of told.ranking) {
      expect(mix.low).toBeLessThanOrEqual(mix.value);
      for (const { numTokens, numSteps } of cells) expect(numTokens / numSteps).toBeGreaterThanOrEqual(1);
    }
    expect(told.failed.map(({ candidate: { name } }) => name)).toEqual(["stories260k.gguf, 2 tokens"]);
    expect(told.failed[0]!.problem).toContain("vocabulary");
    const { models } = parse(readFileSync(join(out, "millrace.yaml"), "utf8"));
    expect(models[0].options["speculative-config"]).toEqual(told.speculativeConfig);
    const edited = readFileSync(join(out, "preset.yaml"), "utf8");
    expect(parse(edited).models[0].options).toEqual({ "speculative-config": told.speculativeConfig });
    expect(edited).toMatch(/^# speculation: (?!none yet)[\s\S]*# ours/);
    expect(told.command).toContain("--speculative-config");

    // Whatever won today, heads are what the server must find by this path.
    const config = { method: "heads", model: HEADS, num_speculative_tokens: 2 };
    for (const each of [told.speculativeConfig, config]) {
      models[0].options["speculative-config"] = each;
      await using fleet = await FleetProcess.start({ models });
      const answer = await post<{ choices: { message: { content: string } }[] }>(`${fleet.url}/v1/chat/completions`, {
        model: "mill-base",
        messages: user("Hello."),
        max_tokens: 8,
      });
      expect(answer.choices[0]!.message.content).not.toBe("");
    }

    const resumed = await tuned(out, file, "--preset", join(out, "preset.yaml"), "--resume");
    expect(resumed.ranking).toEqual(told.ranking);
    expect(resumed.speculativeConfig).toEqual(told.speculativeConfig);
  },
);

/** In this process, without a start of Node for each. */
const refusal = (...args: readonly string[]): Promise<Ended> =>
  runMain("tune", "speculation", "--out", tempTree({}), ...args);

test("what cannot be tuned is refused before anything is measured", PATIENCE, async () => {
  const folder = tempTree({
    "vllm.yaml": "models:\n  - {name: m, engine: vllm, model: x}\n",
    "classes.jsonl": Array.from({ length: 13 }, (_, n) =>
      JSON.stringify({ messages: user("Hi."), class: `c${n}` }),
    ).join("\n"),
  });
  const at = (name: string): string => join(folder, name);
  const drafter = await refusal("--drafter", "lookahead");
  const depths = await refusal("--depths", "0");
  const temperatures = await refusal("--temperatures", "own,1");
  const preset = await refusal("--preset", at("vllm.yaml"));
  const classes = await refusal("--requests", at("classes.jsonl"), ...TINY);
  const resume = await refusal("--resume", "--count", "2");
  const giveBack = await acquireFileLock(at("tune.lock"));
  const locked = await runCli("tune", "speculation", "--out", folder);
  giveBack();
  expect(drafter).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/--drafter to be ngram, suffix, mtp, auto, or/),
  });
  expect(depths).toMatchObject({
    exitCode: 2,
    stderr: expect.stringContaining("--depths to be an integer in [1, 64]"),
  });
  expect(temperatures).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("--temperatures") });
  expect(preset).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/the engine millrace in .*, got vllm/) });
  expect(classes).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("at most 12 classes") });
  expect(resume).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("journal of a tuning to resume") });
  expect(locked).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("storage_locked") });
});
