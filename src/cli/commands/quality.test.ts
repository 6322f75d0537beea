/** The command against the samples of a gateway without instances. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminTarget } from "../../../test/helpers/admin-target.js";
import { runMain } from "../../../test/helpers/run-main.js";
import { adminHandler } from "../../fleet/admin.js";
import type { CheckName } from "../../gateway/quality/checks/checks.js";
import { Quality } from "../../gateway/quality/quality.js";
import { createQualityApp } from "../../gateway/quality/quality-app.js";
import type { KeptSample } from "../../gateway/quality/quality-store.js";
import { openDatabase } from "../../gateway/store/database.js";
import { parseChats } from "../../quality/check.js";
import { scoreAnswer } from "../../quality/score-answer.js";

const NOW = Date.parse("2026-11-27T12:00Z");
let server: Server;
let url: string;
let folder: string;

const sample = (
  requestId: string,
  failing: readonly CheckName[],
  answer: string,
  more: Partial<KeptSample> = {},
): KeptSample => ({
  atMs: NOW,
  requestId,
  tenant: "shop",
  key: "",
  model: "large",
  version: "v1",
  path: "/v1/chat/completions",
  weight: 50,
  verdicts: Object.fromEntries(
    (["refusal", "length", "format"] as const).map((name) => [
      name,
      { badness: Number(failing.includes(name)), isFailing: failing.includes(name) },
    ]),
  ),
  text: { messages: [{ role: "user", text: `Question ${requestId}?` }], answer, format: undefined, isPlain: true },
  ...more,
});

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-quality-"));
  const settings = { share: 0.02, atLeast: 0, textBytes: 1e6, days: 30, quietDays: 365, samplesTenant: () => true };
  const runner = { run: () => Promise.reject(new Error("no job")), end: () => {} };
  const quality = new Quality({
    settings,
    database: openDatabase(undefined),
    runner,
    logger: pino({ level: "silent" }),
    alerts: undefined,
    modelOf: (name) => name,
    versionOf: () => "v1",
    sessionHeader: () => "x-session-id",
    random: () => 0,
    epochMs: () => NOW,
  });
  await quality.store.add(sample("r1", ["refusal"], "I'm sorry, I can't."));
  await quality.store.add(sample("r2", [], "Rome"));
  await quality.store.add(sample("r3", ["length"], "", { text: undefined, weight: 1 }));
  await quality.store.add(
    sample("r4", ["format"], "{", {
      model: "small",
      text: { messages: [{ role: "tool", text: "a" }], answer: "{", format: undefined, isPlain: false },
    }),
  );
  await quality.give({ tenant: "shop" }, { request_id: "r2", rating: "down" });
  await quality.store.addFeedback({
    atMs: NOW,
    requestId: "r2",
    tenant: "shop",
    model: "large",
    score: -1,
    correction: "Paris",
    comment: undefined,
  });
  const handle = adminHandler(adminTarget([createQualityApp(quality, () => NOW)]));
  server = createServer((incoming, outgoing) => void handle(incoming, outgoing, "r"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
});

const run = (...args: readonly string[]) => runMain("quality", ...args, "--url", url, "--admin-key", "boss");

test("the report has a row for each model and check, with shares of all requests", async () => {
  const { stdout } = await run("report");
  const rows = stdout.split("\n").map((line) => line.trim().split(/ {2,}/));
  expect(rows[0]!.slice(0, 5)).toEqual(["model", "check", "judged", "failing", "share"]);
  // Of samples with weights 50, 50 and 1, one with weight 50 is refused.
  expect(rows.find(([model, check]) => model === "large" && check === "refusal")!.slice(2, 6)).toEqual([
    "3",
    "1",
    "49.5 %",
    "33.3 %",
  ]);
  expect(rows.find(([model, check]) => model === "large" && check === "feedback")!.slice(2, 4)).toEqual(["1", "1"]);
  const { data } = JSON.parse((await run("report", "--by", "tenant", "--json")).stdout);
  expect(data).toContainEqual(
    expect.objectContaining({ model: "small", tenant: "shop", check: "format", failing: 1, state: "learning" }),
  );
});

test("samples are listed by what they fail", async () => {
  const ids = async (...args: readonly string[]) =>
    JSON.parse((await run("samples", ...args, "--json")).stdout).samples.map(
      (each: { request_id: string }) => each.request_id,
    );
  expect(await ids()).toEqual(["r4", "r3", "r2", "r1"]);
  expect(await ids("--failing")).toEqual(["r4", "r3", "r2", "r1"]);
  expect(await ids("--failing", "--model", "large", "--limit", "2")).toEqual(["r3", "r2"]);
  expect(await ids("--check", "feedback")).toEqual(["r2"]);
  expect(await ids("--check", "refusal")).toEqual(["r1"]);
  expect((await run("samples", "--check", "format")).stdout).toMatch(/2026-11-27 12:00 +r4 +small +shop +format/);
});

test("failing samples become items that an evaluation reads, and that tell good answers from bad ones", async () => {
  const file = join(folder, "items.jsonl");
  const { stdout } = await run("samples", "--failing", "--out", file);
  expect(stdout).toContain(`2 items in ${file}; left out: 1 without a text, 1 with images, tools or calls`);
  const items = parseChats(readFileSync(file, "utf8"), file);
  expect(items.map(({ family, check }) => [family, check.kind])).toEqual([
    ["correction", "includes"],
    ["refusal", "without"],
  ]);
  const scores = async (answer: string) =>
    await Promise.all(
      items.map(async ({ check, messages }) => (await scoreAnswer(check, messages.at(-1)!.content, answer)).exact),
    );
  expect(await scores("It is Paris.")).toEqual([true, true]);
  expect(await scores("I'm sorry, I can't.")).toEqual([false, false]);
});

test("what cannot be done is refused before anything is asked", async () => {
  writeFileSync(join(folder, "there"), "");
  expect(await run("samples", "--out", join(folder, "there"))).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/nothing at/),
  });
  expect(await run("report", "--by", "key")).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/tenant, version/),
  });
  expect(await run("report", "--days", "0")).toMatchObject({ exitCode: 2 });
  const stranger = await runMain("quality", "report", "--url", url, "--admin-key", "other");
  expect(stranger.stderr).toMatch(/invalid_api_key|API key/);
});

test("accepting learns anew", async () => {
  expect((await run("accept", "--model", "large")).stdout).toMatch(/^\d+ series are learned anew/);
});
