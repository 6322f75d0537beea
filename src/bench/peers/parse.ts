/** Parses the engines' output into rows and refuses measurements other than the requested one. */
import { MillraceError } from "../../core/errors.js";
import type { Shape, SpeedRow } from "./shapes.js";

/** Columns of llama-batched-bench's table, in llama.cpp and ik_llama.cpp alike. */
const COLUMNS = ["PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s"] as const;

function cellsOfLine(line: string): string[] {
  return line
    .trim()
    .replace(/^\||\|$/g, "")
    .split("|")
    .map((cell) => cell.trim());
}

/** @param output of llama-batched-bench, with its Markdown table */
export function parseBatchedBench(output: string): SpeedRow[] {
  const lines = output.split("\n").filter((line) => line.trim().startsWith("|"));
  const header = lines.findIndex((line) => cellsOfLine(line).join() === COLUMNS.join());
  if (header < 0) return [];
  return lines.slice(header + 1).flatMap((line) => {
    const values = cellsOfLine(line).map(Number);
    if (values.length !== COLUMNS.length || values.some((value) => !Number.isFinite(value))) return [];
    const value = (column: (typeof COLUMNS)[number]): number => values[COLUMNS.indexOf(column)]!;
    // A row whose number of entries is not PP·B + TG·B has a shared prompt, which is another measurement.
    if (value("N_KV") !== value("B") * (value("PP") + value("TG"))) return [];
    return {
      batch: value("B"),
      promptTokens: value("PP"),
      genTokens: value("TG"),
      prefillTokensPerS: value("S_PP t/s"),
      decodeTokensPerS: value("S_TG t/s"),
    };
  });
}

/** @param output of millrace or of node-llama-cpp's driver, with a line `{"results": [rows], …}` */
export function parseResultsJson(output: string): SpeedRow[] {
  const line = output.split("\n").find((candidate) => candidate.startsWith('{"results":'));
  if (line === undefined) return [];
  const { results } = JSON.parse(line) as { readonly results: readonly SpeedRow[] };
  return results.map(({ batch, promptTokens, genTokens, prefillTokensPerS, decodeTokensPerS }) => ({
    batch,
    promptTokens,
    genTokens,
    prefillTokensPerS,
    decodeTokensPerS,
  }));
}

/**
 * @returns the shape's rows, one per batch size. Throws peer_failed for a row that is missing or has other lengths or
 * no speed.
 */
export function checkedRows(contender: string, shape: Shape, rows: readonly SpeedRow[]): SpeedRow[] {
  return shape.batches.map((batch) => {
    const row = rows.find((candidate) => candidate.batch === batch);
    const asked = `${batch} × (${shape.promptTokens} prompt + ${shape.genTokens} generated tokens)`;
    if (row === undefined) {
      throw new MillraceError("peer_failed", `expected ${contender} to measure ${asked}, got no such row`, {
        hint: "run the command it was started with by hand and see what it prints",
      });
    }
    const { promptTokens, genTokens, prefillTokensPerS, decodeTokensPerS } = row;
    const isAsked = promptTokens === shape.promptTokens && genTokens === shape.genTokens;
    if (isAsked && prefillTokensPerS > 0 && decodeTokensPerS > 0) return row;
    const got = `${promptTokens} + ${genTokens} tokens at ${prefillTokensPerS} and ${decodeTokensPerS} tokens/s`;
    throw new MillraceError("peer_failed", `expected ${contender} to measure ${asked}, got ${got}`, {
      hint: "run the command it was started with by hand and see what it prints",
    });
  });
}
