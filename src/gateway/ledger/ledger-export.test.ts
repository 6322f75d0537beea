import { parquetReadObjects } from "hyparquet";
import { pino } from "pino";
import { expect, test } from "vitest";
import { openDatabase } from "../store/database.js";
import { GroupCommit } from "../store/group-commit.js";
import { csvCell, type ExportFormat, exportFile } from "./ledger-export.js";
import { exportRows } from "./ledger-queries.js";
import type { RequestRow } from "./ledger-rows.js";
import { LedgerStore } from "./ledger-store.js";

const ALWAYS = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER };

function filled(numRows: number) {
  const database = openDatabase(undefined);
  const commits = new GroupCommit(database);
  const store = new LedgerStore(database, commits, pino({ level: "silent" }));
  for (let seq = 1; seq <= numRows; seq++) store.close(row(seq));
  commits.flush();
  return database;
}

const row = (seq: number): RequestRow => ({
  seq,
  id: `=cmd|${seq}`,
  beganMs: seq * 1000,
  tenant: 'a "b", c',
  team: "",
  key: "k",
  path: "/v1/completions",
  asked: "m",
  isStream: true,
  served: "m",
  outcome: "answered",
  status: 200,
  error: "",
  firstByteMs: 1.5,
  totalMs: 2.500000000000066,
  saved: 0n,
  savedBy: "",
  notes: "",
  maxTokens: undefined,
  numAnswers: 1,
  endUser: seq % 2 === 0 ? "ann" : "",
  attempts:
    seq % 5 === 0
      ? []
      : [
          {
            instance: "i",
            engine: "vllm",
            model: "m",
            startMs: 0,
            firstByteMs: 1,
            totalMs: 2,
            status: 200,
            outcome: "answered",
            counts: { fresh: seq, cacheRead: 0, cacheWrite: 0, output: 3, reasoning: 1 },
            cost: (seq === 4321 ? 2n ** 53n : 0n) + BigInt(seq),
            price: "p",
          },
        ],
});

async function bytesOf(database: ReturnType<typeof openDatabase>, format: ExportFormat): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of exportFile(exportRows(database, ALWAYS), format)) parts.push(part);
  return Buffer.concat(parts);
}

test("Parquet has every row, over several groups, with whole nano-dollars", async () => {
  const bytes = await bytesOf(filled(4321), "parquet");
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  const rows = await parquetReadObjects({ file });
  expect(rows).toHaveLength(4321);
  expect(rows[4320]).toMatchObject({
    id: "=cmd|4321",
    began: new Date(4_321_000),
    tenant: 'a "b", c',
    is_stream: true,
    status: 200n,
    total_ms: 2.5,
    attempt_fresh_tokens: 4321n,
    attempt_cost_nano_dollars: 2n ** 53n + 4321n,
    attempt_drafted_tokens: null,
  });
  expect(rows[4]).toMatchObject({ id: "=cmd|5", attempt_number: null, attempt_cost_nano_dollars: null });
});

test("an empty ledger makes files of no rows", async () => {
  const database = filled(0);
  expect((await bytesOf(database, "csv")).toString().split("\r\n")).toEqual([expect.stringContaining("id,began"), ""]);
  expect((await bytesOf(database, "jsonl")).length).toBe(0);
  const bytes = await bytesOf(database, "parquet");
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
  expect(await parquetReadObjects({ file })).toEqual([]);
});

test("cells cannot become formulas, and quotes and commas stay in theirs", async () => {
  for (const text of ["=1", "+1", "-1", "@x", "\t=1"]) expect(csvCell(text)).toBe(`'${text}`);
  expect(csvCell("-1", "integer")).toBe("-1");
  const [, first] = (await bytesOf(filled(1), "csv")).toString().split("\r\n");
  expect(first).toMatch(/^'=cmd\|1,1970-01-01T00:00:01.000Z,"a ""b"", c",,k,/);
});

test("headings name units, and times are whole microseconds", async () => {
  const [head, first] = (await bytesOf(filled(1), "csv")).toString().split("\r\n");
  const units = ["first_byte_ms", "total_ms", "saved_dollars", "attempt_fresh_tokens", "attempt_cost_dollars"];
  expect(head!.split(",")).toEqual(expect.arrayContaining(units));
  expect(first).toContain(",200,,1.5,2.5,0.000000000,");
  const [line] = (await bytesOf(filled(1), "jsonl")).toString().split("\n");
  expect(JSON.parse(line!)).toMatchObject({ total_ms: 2.5, attempt_cost_dollars: "0.000000001" });
});
