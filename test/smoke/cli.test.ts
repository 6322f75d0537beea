/** The commands that start an engine, as processes: what they print, how they end, what they refuse. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { runCliWith } from "../helpers/run-cli.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

const STORIES = fixture("models/stories260k.gguf");

test("serve is the default command, reports its stages and prints an example request", async () => {
  const { stdout, stderr, exitCode } = await runCliWith({ untilStdout: "\n  curl " }, ["--port", "0"]);
  for (const stage of ["model", "engine", "server"]) expect(stderr).toMatch(new RegExp(`^✓ ${stage} `, "m"));
  expect(stdout).toMatch(/^ {2}ready +http:\/\/127\.0\.0\.1:\d+ /m);
  expect(stdout).toMatch(/^ {2}model +mill-base: llama, /m);
  expect(stdout).toMatch(/^ {2}threads +\d+ \(\w+\)$/m);
  expect(stdout).toMatch(/^ {2}KV +[\d.]+ \w+ of f16: room for \d+ tokens$/m);
  expect(stdout).toMatch(/^ {2}curl http:.*\/v1\/chat\/completions .* -d '\{"model":"mill-base",/m);
  expect(exitCode).toBe(0);
});

test("`ready` is the last output of a start, after any warning", async () => {
  await using server = await FleetProcess.run(["--model", STORIES, "--host", "0.0.0.0", "--port", "0"]);
  expect(server.text).toMatch(/^warning: everyone who can reach 0\.0\.0\.0 .*\n\n {2}ready /m);
});

test("a port in use is refused with a hint, and no process stays behind", async () => {
  await using server = await startTestServer(["--model", STORIES]);
  const port = new URL(server.url).port;
  const { stdout, stderr, exitCode } = await runCliWith({}, ["engine", "--model", STORIES, "--port", port]);
  expect(stderr).toMatch(
    /^error \[invalid_option\]: expected to listen on 127\.0\.0\.1:\d+, got a port that another program uses \(EADDRINUSE\)\nhint: /m,
  );
  expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 2 });
});

test("a file that is not a model ends the start with its code", async () => {
  const root = tempTree({});
  const path = join(root, "cut.gguf");
  writeFileSync(path, readFileSync(STORIES).subarray(0, 5_000));
  const { stderr, exitCode } = await runCliWith({}, ["engine", "--model", path, "--port", "0"]);
  expect(stderr).toMatch(/^error \[gguf_\w+\]: /m);
  expect(exitCode).toBe(1);
});

test("options that exceed the model's limits are refused", async () => {
  const { stderr, exitCode } = await runCliWith({}, [
    "engine",
    "--model",
    STORIES,
    "--port",
    "0",
    "--max-model-len",
    "100000",
  ]);
  expect(stderr).toMatch(/^error \[invalid_option\]: /m);
  expect(exitCode).toBe(2);
});

test("generate streams the reference's greedy text to stdout and timings to stderr", async () => {
  const [expected] = JSON.parse(readFileSync(fixture("models/stories260k.expected.json"), "utf8")) as [
    { prompt: string; maxTokens: number; text: string },
  ];
  const { prompt, maxTokens, text } = expected;
  const args = [
    "generate",
    "--model",
    STORIES,
    "--prompt",
    prompt,
    "--max-tokens",
    String(maxTokens),
    "--temperature",
    "0",
  ];
  const { stdout, stderr, exitCode } = await runCliWith({}, args);
  expect(stdout).toBe(`${text}\n`);
  expect(stderr).toMatch(/5 prompt tokens.*200 output tokens, first after .* tok\/s, ended by length/);
  expect(exitCode).toBe(0);
});

test("generate is reproducible with a seed, and supports stop texts with commas", async () => {
  const args = ["generate", "--model", STORIES, "--prompt", "Once", "--max-tokens", "40", "--seed", "-7", "--json"];
  const [first, second] = await Promise.all([runCliWith({}, args), runCliWith({}, args)]);
  const { text, numOutputTokens } = JSON.parse(first.stdout) as { text: string; numOutputTokens: number };
  expect(numOutputTokens).toBe(40);
  expect(JSON.parse(second.stdout)).toMatchObject({ text });
  const stop = ", there";
  const greedy = [
    "generate",
    "--model",
    STORIES,
    "--prompt",
    "Once upon a time",
    "--temperature",
    "0",
    "--stop",
    stop,
    "--json",
  ];
  expect(JSON.parse((await runCliWith({}, greedy)).stdout)).toMatchObject({ text: "", end: "stop" });
});

test("chat answers line by line, resets on /reset, shows its speed, and ends on /exit", async () => {
  const lines = ["hello", "/help", "/reset", "hello", "/exit", "never read"];
  const { stdout, stderr, exitCode } = await runCliWith({ stdin: `${lines.join("\n")}\n` }, ["chat"]);
  const stats = [...stdout.matchAll(/\[(\d+) prompt tokens.* output tokens, first after .*ended by stop\]/g)];
  expect(stats.map((match) => match[1])).toEqual([stats[0]?.[1], stats[0]?.[1]]);
  expect(stdout).toContain("/reset starts over, /exit ends");
  expect(stdout).toContain("new conversation");
  expect(stderr).toContain("mill-base, temperature 0; /reset starts over");
  // The input was over when the first answer was.
  expect(stdout.match(/^> /gm)).toHaveLength(1);
  expect(exitCode).toBe(0);
});

test("chat is refused without a chat template", async () => {
  const { stderr, exitCode } = await runCliWith({ stdin: "hello\n" }, ["chat", "--model", STORIES]);
  expect(stderr).toMatch(
    /^error \[template_missing\]: expected a model with a chat template, got stories260k without/m,
  );
  expect(exitCode).toBe(1);
});
