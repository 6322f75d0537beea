import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { type LogEntry, OUTCOMES, ResultLog, readEntries } from "./result-log.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-log-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const entry = fc.record({
  index: fc.nat(100_000),
  outcome: fc.constantFrom(...OUTCOMES),
  usage: fc.record({ input: fc.nat(), cached: fc.nat(), output: fc.nat(), reasoning: fc.nat() }),
  // Includes text that looks like an entry.
  json: fc
    .oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("0 succeeded 1 1 1 1 2 {}", "x".repeat(3000)))
    .map((text) => Buffer.from(JSON.stringify(text))),
});

let numLogs = 0;
const newPath = () => join(folder, `log-${numLogs++}`);

/** JSON as text, which is quicker to compare. */
const shown = (entry: LogEntry) => ({ ...entry, json: entry.json.toString() });

async function entriesOf(path: string) {
  const entries: ReturnType<typeof shown>[] = [];
  await readEntries(path, async (each) => void entries.push(shown(each)));
  return entries;
}

async function write(path: string, entries: readonly LogEntry[]): Promise<void> {
  const log = await ResultLog.open(path, () => {});
  await Promise.all(entries.map((each) => log.append([each])));
  await log.close();
}

test("a log that is cut anywhere has the whole entries before the cut, and goes on behind them", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(entry, { minLength: 1, maxLength: 5 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      async (entries, share) => {
        const path = newPath();
        await write(path, entries);
        const size = readFileSync(path).length;
        expect(await entriesOf(path)).toEqual(entries.map(shown));
        truncateSync(path, Math.floor(size * share));
        const heads: number[] = [];
        const log = await ResultLog.open(path, ({ index }) => heads.push(index));
        expect(heads).toEqual(entries.slice(0, heads.length).map(({ index }) => index));
        expect(heads.length === entries.length).toBe(share === 1);
        await log.append([entries[0]!]);
        await log.close();
        expect(await entriesOf(path)).toEqual([...entries.slice(0, heads.length), entries[0]!].map(shown));
        rmSync(path);
      },
    ),
    { numRuns: 40 },
  );
});

test("what is no entry ends the log", async () => {
  const path = newPath();
  const whole = {
    index: 1,
    outcome: "succeeded",
    usage: { input: 1, cached: 0, output: 2, reasoning: 0 },
    json: Buffer.from("{}"),
  } as const;
  await write(path, [whole]);
  appendFileSync(path, Buffer.alloc(4096));
  expect(await entriesOf(path)).toEqual([shown(whole)]);
});

test("there is no log before the first entry", async () => {
  expect(await entriesOf(newPath())).toEqual([]);
});

test("entries that are larger than what is read at once", async () => {
  const path = newPath();
  const usage = { input: 0, cached: 0, output: 0, reasoning: 0 };
  const entries = [5, 3_000_000, 1_048_500, 7].map(
    (length, index): LogEntry => ({ index, outcome: "succeeded", usage, json: Buffer.alloc(length, "x") }),
  );
  await write(path, entries);
  expect((await entriesOf(path)).map(({ index, json }) => [index, json.length])).toEqual([
    [0, 5],
    [1, 3_000_000],
    [2, 1_048_500],
    [3, 7],
  ]);
});
