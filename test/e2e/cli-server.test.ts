/** `millrace chat` and `millrace generate` with a model behind a server of ours. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCliWith } from "../helpers/run-cli.js";
import { startTestServer, type TestServer } from "../helpers/server.js";

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer(["--api-key", "sk-one", "--served-model-name", "ours"]);
}, 120_000);
afterAll(() => server.stop());

const SLOW = { timeout: 120_000 };
const QUESTION = "Calculate 894 - 859.";
const atServer = () => ["--url", server.url, "--api-key", "sk-one"];

test("generate prints the server's answer as it prints one of this process", SLOW, async () => {
  const ask = ["generate", "--prompt", QUESTION, "--temperature", "0"];
  const [remote, local] = [await runCliWith({}, [...ask, ...atServer()]), await runCliWith({}, ask)];
  expect(remote.stdout).toBe(local.stdout);
  expect(remote.stdout).toContain("35");
  const counts = /(\d+) prompt tokens.*, (\d+) output tokens, first after .*, ended by stop\n$/;
  expect(remote.stderr.match(counts)?.slice(1)).toEqual(local.stderr.match(counts)?.slice(1));
  // Nothing was loaded.
  expect(remote.stderr.split("\n")).toHaveLength(2);
  const raw = ["generate", "--prompt", "The capital of", "--raw", "--temperature", "0", "--max-tokens", "3", "--json"];
  const [further, own] = [await runCliWith({}, [...raw, ...atServer(), "--model", "ours"]), await runCliWith({}, raw)];
  const { text, end } = JSON.parse(own.stdout);
  expect(JSON.parse(further.stdout)).toMatchObject({ text, end });
});

test("chat keeps a conversation with the server's model", SLOW, async () => {
  const lines = [QUESTION, "And plus 1?", "/reset", QUESTION, "/exit"];
  const { stdout, stderr, exitCode } = await runCliWith({ stdin: `${lines.join("\n")}\n` }, [
    "chat",
    "--temperature",
    "0",
    ...atServer(),
  ]);
  const sizes = [...stdout.matchAll(/^\[(\d+) prompt tokens.* output tokens, first after .*ended by stop\]$/gm)];
  const [first, second, third] = sizes.map(([, size]) => Number(size));
  expect(second).toBeGreaterThan(first!);
  expect(third).toBe(first);
  expect(stderr).toContain("ours, temperature 0; /reset starts over");
  expect(exitCode).toBe(0);
});

test("a missing key, a wrong name and a place where nothing listens are told", SLOW, async () => {
  const failing = async (...args: readonly string[]) => {
    const { stderr, exitCode } = await runCliWith({}, ["generate", "--prompt", "a", ...args]);
    expect(exitCode).toBe(1);
    return stderr;
  };
  expect(await failing("--url", server.url)).toMatch(
    /^error \[endpoint_failed\]: .* got 401: .*\nhint: .*the API key$/m,
  );
  expect(await failing(...atServer(), "--model", "theirs")).toMatch(/^error \[model_not_found\]: .*theirs/);
  expect(await failing("--url", "http://127.0.0.1:1")).toMatch(
    /^error \[endpoint_failed\]: expected an answer from http:\/\/127\.0\.0\.1:1\/v1\/models, got .*ECONNREFUSED.*\nhint: check that the server runs/,
  );
});
