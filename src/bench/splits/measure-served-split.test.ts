/** Splits of another engine's servers, with small scripts as programs. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { isAlive, modelSpec, scriptProgram } from "../../../test/helpers/fleet.js";
import { measureServedSplit } from "./measure-served-split.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "served-split-"));
  vi.stubEnv("TMPDIR", folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true });
});

/** A server that adds its process id to a file for each completion. */
const serverFor = (file: string): string => `
  const port = process.argv[process.argv.indexOf("--port") + 1];
  require("node:http").createServer((request, response) => {
    if (request.url === "/v1/completions") require("node:fs").appendFileSync(${JSON.stringify(file)}, process.pid + "\\n");
    response.end('{"usage":{"completion_tokens":7}}');
  }).listen(port, "127.0.0.1");`;

test("each instance is asked for its share, attached servers are not, and nothing stays behind", async () => {
  const files = mkdtempSync(join(tmpdir(), "asked-"));
  const file = join(files, "asked");
  let numAsked = 0;
  const attached = createServer((_, response) => response.end(String(++numAsked)));
  await new Promise<void>((resolve) => attached.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(attached.address() as AddressInfo).port}`;
  const split = { instances: 2, perInstance: 1 };
  try {
    const spec = modelSpec({
      instances: 2,
      program: scriptProgram(serverFor(file)),
      attach: [{ url, apiKey: undefined, modelName: undefined }],
    });
    const { tokensPerS, ...measured } = await measureServedSplit(spec, split, 4);
    expect(measured).toEqual(split);
    expect(tokensPerS).toBeGreaterThan(0);
    expect(numAsked).toBe(0);
    const pids = readFileSync(file, "utf8").trim().split("\n").map(Number);
    const [first, second, ...others] = new Set(pids);
    expect(others).toEqual([]);
    // Two clients of each instance warm up with one request and are measured with three.
    for (const pid of [first, second]) {
      expect(pids.filter((each) => each === pid)).toHaveLength(8);
      expect(isAlive(pid!)).toBe(false);
    }
  } finally {
    attached.close();
    rmSync(files, { recursive: true });
  }
  expect(readdirSync(folder).filter((name) => name.startsWith("millrace-"))).toEqual([]);
});

test.each([
  ["ends with a message", scriptProgram("console.error('no such device'); process.exit(3)"), /no such device/],
  ["ends without a word", scriptProgram("process.exit(3)"), /ended with code 3/],
  ["does not exist", ["no-such-engine"] as const, /expected the program no-such-engine/],
])("an instance whose program %s is an error that says so", async (_, program, message) => {
  const measuring = measureServedSplit(modelSpec({ program }), { instances: 1, perInstance: 1 }, 1);
  await expect(measuring).rejects.toMatchObject({ code: "peer_failed", message: expect.stringMatching(message) });
});
