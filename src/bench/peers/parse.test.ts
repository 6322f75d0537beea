import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { checkedRows, parseBatchedBench, parseResultsJson } from "./parse.js";
import { readRuns } from "./saved-runs.js";
import type { Shape } from "./shapes.js";

const recorded = (name: string): string => readFileSync(fixture(`peers/${name}.txt`), "utf8");
const SHAPE: Shape = { name: "decode", promptTokens: 32, genTokens: 8, batches: [1, 4] };
const LENGTHS = { promptTokens: 32, genTokens: 8 };

describe("llama-batched-bench's table", () => {
  test("of llama.cpp", () => {
    expect(parseBatchedBench(recorded("llama.cpp"))).toEqual([
      { batch: 1, ...LENGTHS, prefillTokensPerS: 12441.68, decodeTokensPerS: 4284.95 },
      { batch: 4, ...LENGTHS, prefillTokensPerS: 15896.67, decodeTokensPerS: 7297.61 },
    ]);
  });

  test("of ik_llama.cpp, between its log lines", () => {
    expect(parseBatchedBench(recorded("ik_llama.cpp"))).toEqual([
      { batch: 1, ...LENGTHS, prefillTokensPerS: 16359.92, decodeTokensPerS: 5979.07 },
      { batch: 4, ...LENGTHS, prefillTokensPerS: 22004.47, decodeTokensPerS: 10332.58 },
    ]);
  });

  test("without a table, or with other columns, has no rows", () => {
    expect(parseBatchedBench("error: unable to load model\n")).toEqual([]);
    expect(parseBatchedBench(recorded("llama.cpp").replace("S_PP t/s", "PP t/s"))).toEqual([]);
  });

  test("rows of shared prompts and rows without numbers are left out", () => {
    const output = recorded("llama.cpp").replace("|    160 |", "|     64 |").replace("4284.95", "nan");
    expect(parseBatchedBench(output)).toEqual([]);
  });
});

test("results of node-llama-cpp's driver and of millrace's --json are found on any line", () => {
  const rows = parseResultsJson(`a warning\n${recorded("node-llama-cpp")}progress\n`);
  expect(rows).toMatchObject([
    { batch: 1, ...LENGTHS },
    { batch: 4, ...LENGTHS, decodeTokensPerS: 414.58731386510317 },
  ]);
  expect(parseResultsJson("Segmentation fault\n")).toEqual([]);
});

describe("rows are checked against the shape", () => {
  const rows = parseBatchedBench(recorded("llama.cpp"));

  test("one row per batch size is returned, in the shape's order", () => {
    expect(checkedRows("llama.cpp", SHAPE, [...rows].reverse())).toEqual(rows);
  });

  const BAD: readonly [string, Shape, RegExp][] = [
    [
      "a batch size is missing",
      { ...SHAPE, batches: [1, 8] },
      /8 × \(32 prompt \+ 8 generated tokens\), got no such row/,
    ],
    ["the prompt was cut", { ...SHAPE, promptTokens: 64 }, /1 × \(64 prompt \+ 8 .*got 32 \+ 8 tokens/],
    ["fewer tokens came", { ...SHAPE, genTokens: 16 }, /got 32 \+ 8 tokens/],
  ];
  test.each(BAD)("%s", (_name, shape, message) => {
    expect(() => checkedRows("llama.cpp", shape, rows)).toThrow(message);
  });

  test("a speed of zero", () => {
    const stopped = rows.map((row) => ({ ...row, decodeTokensPerS: 0 }));
    expect(() => checkedRows("llama.cpp", SHAPE, stopped)).toThrow(
      expect.objectContaining({ code: "peer_failed", message: expect.stringContaining("and 0 tokens/s") }),
    );
  });
});

test("files with other results are refused", () => {
  expect(() => readRuns(fixture("../../package.json"))).toThrow(/expected saved runs in .*package\.json, got.*runs/s);
});
