/** The recall of narrow keys and values, by the script that measures it. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "../scripts/temp-tree.js";

interface Run {
  readonly kvCacheDtype: string;
  readonly numQuestions: number;
  readonly numRight: number;
}

test("over 2,046 tokens int8 recalls as f16 does, and types with fewer bits recall less", () => {
  const out = join(tempTree({}), "recall.json");
  const script = ["scripts/measure-kv-recall.js", "test/fixtures/kv-recall"];
  const flags = ["--lengths", "2046", "--texts", "2", "--out", out];
  const table = execFileSync(process.execPath, [...script, ...flags], { cwd: repositoryRoot(), encoding: "utf8" });
  expect(table).toMatch(/^\| 2046 \| 9\d\.\d %|^\| 2046 \| 100/m);
  const { runs } = JSON.parse(readFileSync(out, "utf8")) as { readonly runs: readonly Run[] };
  const share = (type: string): number => {
    const { numRight, numQuestions } = runs.find(({ kvCacheDtype }) => kvCacheDtype === type)!;
    expect(numQuestions).toBe(256);
    return numRight / numQuestions;
  };
  expect(share("f16")).toBeGreaterThan(0.98);
  expect(share("int8")).toBeGreaterThan(share("f16") - 0.01);
  expect(share("fp8_e4m3")).toBeGreaterThan(0.94);
  expect(share("fp8_e5m2")).toBeLessThan(share("fp8_e4m3"));
  expect(share("fp4")).toBeLessThan(share("fp8_e5m2"));
});
