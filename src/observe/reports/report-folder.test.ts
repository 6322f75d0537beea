import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { factsOf } from "./figures.js";
import { ReportFolder } from "./report-folder.js";

const run = (outputTokensPerS: number, voidReasons: readonly string[] = []) => ({
  target: "ours",
  cell: "chat",
  voidReasons,
  metrics: { outputTokensPerS, ttftMs: { percentiles: { p50: 2 * outputTokensPerS } } },
});

const bench = {
  format: "millrace-bench",
  createdAt: "2026-11-22T10:00:00.000Z",
  machine: { cpu: "EPYC", numCpus: 2 },
  versions: { millrace: "0.1.0", node: "20" },
  runs: [run(30), run(10), run(20), run(9000, ["the client was too slow"])],
};

interface Row {
  readonly name: string;
  readonly kind?: string;
  readonly error?: string;
  readonly page: string | null;
}

async function rowsOf(folder: ReportFolder): Promise<readonly Row[]> {
  const { data } = (await (await folder.list()).json()) as { data: Row[] };
  return data.toSorted((a, b) => a.name.localeCompare(b.name));
}

/** Opens the link of a row. */
function open(folder: ReportFolder, link: string, change: Readonly<Record<string, string>> = {}): Promise<Response> {
  const { pathname, searchParams } = new URL(link, "http://x/");
  const asked = { id: pathname.split("/")[3]!, ...Object.fromEntries(searchParams), ...change } as Record<
    string,
    string
  >;
  return folder.page(asked.id!, asked.until!, asked.proof!);
}

test("a benchmark's figures are the median and the bounds of the rounds that count", () => {
  expect(factsOf(bench)).toEqual({
    kind: "bench",
    at: "2026-11-22T10:00:00.000Z",
    machine: "EPYC",
    version: "0.1.0",
    figures: [
      { name: "ours, chat: output tokens/s", value: 20, low: 10, high: 30 },
      { name: "ours, chat: TTFT p50, ms", value: 40, low: 20, high: 60 },
    ],
  });
});

test("other reports give their numbers by name, with intervals, and never their texts", () => {
  const overall = { task: "all", drop: 0.01, interval: [-0.02, 0.04], before: 0.9 };
  const report = {
    tasks: [
      { task: "copy", score: 0.5, numItems: 4, exact: 0.25, exactInterval: [0.1, 0.6], items: [{ answer: "secret" }] },
    ],
    seed: 7,
    comparison: { overall },
  };
  const facts = factsOf(report);
  expect(facts).toEqual({
    kind: "eval",
    figures: [
      { name: "tasks copy exact", value: 0.25, low: 0.1, high: 0.6 },
      { name: "comparison overall drop", value: 0.01, low: -0.02, high: 0.04 },
      { name: "tasks copy score", value: 0.5 },
      { name: "comparison overall before", value: 0.9 },
    ],
  });
  const total = { value: 2, low: 1.5, high: 2.5 };
  expect(
    factsOf({ format: "millrace-tune", trials: [{ proposal: { name: "seats" }, measured: total }] })!.figures,
  ).toEqual([{ name: "trials seats measured", ...total }]);
  for (const other of [null, 1, [], {}, { runs: [] }]) expect(factsOf(other)).toBeUndefined();
});

test("files are listed with their pages, hostile ones with their error, and links to elsewhere not at all", async () => {
  const html = "<script>alert(1)</script>";
  const root = tempTree({ "a.json": JSON.stringify(bench), "a.html": html, "b.json": "{", "c.json": "[]" });
  mkdirSync(join(root, "tuning"));
  writeFileSync(join(root, "tuning", "tune.json"), JSON.stringify({ format: "millrace-tune", trials: [] }));
  writeFileSync(join(root, "tuning", "report.html"), html);
  writeFileSync(join(root, "plan.html"), html);
  writeFileSync(join(root, "huge.json"), "");
  truncateSync(join(root, "huge.json"), 20 * 2 ** 20);
  writeFileSync(join(root, "many.json"), `{"format":"millrace-tune","trials":[${"0,".repeat(1e6)}0]}`);
  writeFileSync(join(root, "nested.json"), `{"format":"millrace-tune","trials":${"[".repeat(1e6)}`);
  symlinkSync("/etc/hostname", join(root, "link.html"));
  const folder = new ReportFolder(root);
  const rows = await rowsOf(folder);
  expect(rows.map(({ name, kind, error, page }) => [name, kind ?? error, page !== null])).toEqual([
    ["a.json", "bench", true],
    ["b.json", "expected JSON, got other text", false],
    ["c.json", "expected a report that millrace wrote, got other JSON", false],
    ["huge.json", "expected at most 16.0 MiB, got 20.0 MiB", false],
    ["many.json", "expected at most 1000000 commas, colons and opening brackets, got more", false],
    ["nested.json", "expected a report nested at most 64 deep, got more", false],
    ["plan.html", "page", true],
    ["tuning/tune.json", "tune", true],
  ]);
  const answer = await open(folder, rows[0]!.page!);
  expect(await answer.text()).toBe(html);
  expect(answer.headers.get("content-security-policy")).toMatch(/^sandbox; default-src 'none';/);
  expect(answer.headers.get("content-security-policy")).not.toMatch(/allow-|script-src/);
});

test("a page opens by a link of the list only, for an hour", async () => {
  const folder = new ReportFolder(tempTree({ "a.html": "a", "b.html": "b" }));
  const [a, b] = (await rowsOf(folder)).map(({ page }) => page!);
  const other = new URL(b!, "http://x/").pathname.split("/")[3]!;
  await expect(open(folder, a!, { id: other })).rejects.toThrow(/expected a link of the list/);
  await expect(open(folder, a!, { until: "99999999999999" })).rejects.toThrow(/expected a link/);
  await expect(open(folder, a!, { proof: "é" })).rejects.toThrow(/expected a link/);
  vi.useFakeTimers({ now: Date.now() + 3_600_001, toFake: ["Date"] });
  try {
    await expect(open(folder, a!)).rejects.toThrow(/expected a link/);
  } finally {
    vi.useRealTimers();
  }
});

test("a folder that is not there is said, and one that changes is read again", async () => {
  const root = tempTree({ "a.json": "{" });
  await expect(new ReportFolder(join(root, "none")).list()).rejects.toThrow(/folder of reports that can be read/);
  const folder = new ReportFolder(root);
  expect((await rowsOf(folder))[0]!.kind).toBeUndefined();
  writeFileSync(join(root, "a.json"), JSON.stringify(bench));
  expect((await rowsOf(folder))[0]!.kind).toBe("bench");
});

test("runs of one server and cell are many in little time", () => {
  const runs = Array.from({ length: 100_000 }, () => run(7));
  expect(factsOf({ ...bench, runs })!.figures[0]).toEqual({
    name: "ours, chat: output tokens/s",
    value: 7,
    low: 7,
    high: 7,
  });
});
