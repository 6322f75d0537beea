/**
 * Scores SQL by its results: the answer and the expected query read the same tables, in the jail of generated Python,
 * whose SQLite has no files to open.
 */
import { MillraceError } from "../core/errors.js";
import type { Check } from "./check.js";
import { unfence } from "./fenced.js";
import type { CallResult } from "./sandbox/results.js";
import { hasPython, runCode } from "./sandbox/run-code.js";
import type { Score } from "./score.js";
import { scoreExact } from "./text-scores.js";

type SqlCheck = Extract<Check, { kind: "sql" }>;

const MAX_ROWS = 10_000;
/** Significant digits that count, because sums of the same numbers in another order differ in the last ones. */
const DIGITS = 12;

const RUN_QUERY = `
import sqlite3

def find(setup, query):
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.executescript("PRAGMA temp_store = MEMORY;" + setup)
    database.execute("PRAGMA query_only = ON")
    rows = database.execute(query).fetchmany(${MAX_ROWS} + 1)
    if len(rows) > ${MAX_ROWS}:
        raise ValueError("more than ${MAX_ROWS} rows")
    return [[value.hex() if isinstance(value, bytes) else value for value in row] for row in rows]
`;

type Rows = readonly (readonly unknown[])[];

const badTask = (problem: string): MillraceError =>
  new MillraceError("invalid_option", `expected a query that runs as the expected answer, got ${problem}`, {
    hint: "mend the setup or the query of the chat; both are SQLite's SQL, and python3 must have its module sqlite3",
  });

/**
 * Throws invalid_option if the expected query fails: no answer could be right.
 *
 * @param expected the query that finds the right rows
 */
export async function scoreSql({ setup, isOrdered }: SqlCheck, expected: string, answer: string): Promise<Score> {
  if (!hasPython()) return { ...scoreExact(expected, answer), note: "python3 not found: compared as text" };
  const calls = [expected, unfence(answer)].map((query) => [setup, query]);
  const results = await runCode("python", { code: RUN_QUERY, name: "find", calls });
  if ("problem" in results) return wrong(results.problem);
  const [right, given] = results as [CallResult, CallResult];
  if ("problem" in right) throw badTask(right.problem);
  if ("problem" in given) return wrong(given.problem);
  const [wanted, got] = [right.value as Rows, given.value as Rows];
  if (wanted.length !== got.length) return wrong(`expected ${wanted.length} rows, got ${got.length}`);
  const [of, one] = [wanted, got].map((rows) => textsOf(rows, isOrdered === true)) as [string[], string[]];
  const at = of.findIndex((text, index) => text !== one[index]);
  return at < 0 ? { score: 1, exact: true } : wrong(`expected the row ${of[at]}, got ${one[at]}`);
}

const wrong = (note: string): Score => ({ score: 0, exact: false, note: note.slice(0, 300) });

/** Unordered rows form a multiset. */
function textsOf(rows: Rows, isOrdered: boolean): string[] {
  const texts = rows.map((row) => JSON.stringify(row.map(rounded)));
  return isOrdered ? texts : texts.sort();
}

const rounded = (value: unknown): unknown =>
  typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(DIGITS)) : value;
