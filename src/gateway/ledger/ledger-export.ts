/** The ledger as a file: CSV, JSON lines or Parquet, written while it is read, in bounded memory. */
import { ByteWriter, type ColumnSource, ParquetWriter, schemaFromColumnData } from "hyparquet-writer";
import { formatCost } from "../money.js";
import type { Row } from "../store/side-connection.js";

export const EXPORT_FORMATS = ["csv", "jsonl", "parquet"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  jsonl: "application/x-ndjson",
  parquet: "application/vnd.apache.parquet",
};

type Kind = "text" | "time" | "integer" | "tokens" | "money" | "milliseconds" | "flag";

/** Columns of a file, in order. */
const COLUMNS: Readonly<Record<string, Kind>> = {
  id: "text",
  began: "time",
  tenant: "text",
  team: "text",
  key: "text",
  end_user: "text",
  path: "text",
  model_asked: "text",
  model_served: "text",
  is_stream: "flag",
  outcome: "text",
  status: "integer",
  error: "text",
  first_byte_ms: "milliseconds",
  total_ms: "milliseconds",
  saved: "money",
  saved_by: "text",
  notes: "text",
  attempt_number: "integer",
  attempt_instance: "text",
  attempt_engine: "text",
  attempt_model: "text",
  attempt_start_ms: "milliseconds",
  attempt_first_byte_ms: "milliseconds",
  attempt_total_ms: "milliseconds",
  attempt_status: "integer",
  attempt_outcome: "text",
  attempt_fresh: "tokens",
  attempt_cache_read: "tokens",
  attempt_cache_write: "tokens",
  attempt_output: "tokens",
  attempt_reasoning: "tokens",
  attempt_drafted: "tokens",
  attempt_accepted: "tokens",
  attempt_is_estimated: "flag",
  attempt_cost: "money",
  attempt_price: "text",
};
const NAMES = Object.keys(COLUMNS);

/** A column's name in CSV and JSON lines ends in its unit; times of the clock need none. */
const HEADINGS: readonly string[] = NAMES.map((name) => heading(name, "dollars"));

function heading(name: string, moneyUnit: string): string {
  const kind = COLUMNS[name];
  if (kind === "money") return `${name}_${moneyUnit}`;
  return kind === "tokens" ? `${name}_tokens` : name;
}

export async function* exportFile(pages: AsyncIterable<readonly Row[]>, format: ExportFormat): AsyncGenerator<Buffer> {
  if (format === "parquet") yield* parquet(pages);
  else if (format === "csv") yield* csv(pages);
  else yield* jsonl(pages);
}

async function* csv(pages: AsyncIterable<readonly Row[]>): AsyncGenerator<Buffer> {
  yield Buffer.from(`${HEADINGS.join(",")}\r\n`);
  for await (const rows of pages) {
    const lines = rows.map((row) => NAMES.map((name) => csvCell(textOf(row, name), COLUMNS[name]!)).join(","));
    yield Buffer.from(`${lines.join("\r\n")}\r\n`);
  }
}

/** Spreadsheets run cells that begin like a formula; clients choose ids and names. */
const FORMULA = /^[=+\-@\t\r]/;

export function csvCell(text: string, kind: Kind = "text"): string {
  const safe = kind === "text" && FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function textOf(row: Row, name: string): string {
  const value = shownValue(row, name);
  return value === null ? "" : String(value);
}

async function* jsonl(pages: AsyncIterable<readonly Row[]>): AsyncGenerator<Buffer> {
  for await (const rows of pages) {
    const lines = rows.map((row) =>
      JSON.stringify(Object.fromEntries(NAMES.map((name, i) => [HEADINGS[i]!, shownValue(row, name)]))),
    );
    yield Buffer.from(`${lines.join("\n")}\n`);
  }
}

/** A value as people and JSON write it: money as exact text. */
function shownValue(row: Row, name: string): string | number | boolean | null {
  const kind = COLUMNS[name]!;
  const value = kind === "time" ? row.began_ms : row[name];
  if (value === null || value === undefined) return null;
  switch (kind) {
    case "text":
      return String(value);
    case "time":
      return new Date(Number(value)).toISOString();
    case "money":
      return formatCost(BigInt(value as bigint));
    case "flag":
      return Number(value) === 1;
    case "integer":
    case "tokens":
    case "milliseconds":
      return Number(value);
  }
}

/** Rows of a group, which are adjacent in memory and in the file. */
const GROUP_ROWS = 2000;
const PARQUET_TYPES: Readonly<Record<Kind, NonNullable<ColumnSource["type"]>>> = {
  text: "STRING",
  time: "TIMESTAMP",
  integer: "INT64",
  tokens: "INT64",
  money: "INT64",
  milliseconds: "DOUBLE",
  flag: "BOOLEAN",
};

async function* parquet(pages: AsyncIterable<readonly Row[]>): AsyncGenerator<Buffer> {
  const writer = new ByteWriter();
  /** The bytes written since the last call. */
  const written = (): Buffer => {
    const bytes = Buffer.from(writer.getBytes());
    writer.index = 0;
    return bytes;
  };
  const file = new ParquetWriter({ writer, schema: schemaFromColumnData({ columnData: columnsOf([]) }) });
  let group: Row[] = [];
  const writeGroup = async (): Promise<Buffer> => {
    await file.write({ columnData: columnsOf(group), rowGroupSize: group.length });
    group = [];
    return written();
  };
  for await (const rows of pages) {
    for (const row of rows) group.push(row);
    if (group.length >= GROUP_ROWS) yield await writeGroup();
  }
  if (group.length > 0) yield await writeGroup();
  await file.finish();
  yield written();
}

/** Money is whole nano-dollars in Parquet. */
function columnsOf(rows: readonly Row[]): ColumnSource[] {
  return NAMES.map((name) => {
    const kind = COLUMNS[name]!;
    return {
      name: heading(name, "nano_dollars"),
      type: PARQUET_TYPES[kind],
      nullable: true,
      offsetIndex: false,
      data: rows.map((row) => parquetValue(row, name, kind)),
    };
  });
}

function parquetValue(row: Row, name: string, kind: Kind): unknown {
  const value = kind === "time" ? row.began_ms : row[name];
  if (value === null || value === undefined) return null;
  switch (kind) {
    case "text":
      return String(value);
    case "time":
      return new Date(Number(value));
    case "flag":
      return Number(value) === 1;
    case "milliseconds":
      return Number(value);
    case "integer":
    case "tokens":
    case "money":
      return BigInt(value as bigint);
  }
}
