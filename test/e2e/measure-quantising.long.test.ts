/**
 * The script that measures every method of quantising: its figures, and that it goes on from the results that it has.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "../scripts/temp-tree.js";

const SMALL = ["--families", "extract", "--count", "8", "--loss-chats", "8", "--calibration-tokens", "4096"];

function measure(...flags: string[]): string {
  const script = ["scripts/measure-quantising.js", "--threads", "2", ...flags];
  return execFileSync(process.execPath, script, {
    cwd: repositoryRoot(),
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
  });
}

/** Several commands of the product, one after another. */
const TIMEOUT_MS = 240_000;

test(
  "a method has its loss and its drop beside the original, and is not measured again",
  () => {
    const json = join(tempTree({}), "quality.json");
    const flags = ["--json", json, "--model", "models/mill-student.gguf", "--nearest", ...SMALL];
    const table = measure(...flags, "--types", "Q4_0");
    expect(table).toMatch(/^\| original, Q8_0 \| 1\.30 MiB \| 8\.5/m);
    expect(table).toMatch(/^\| Q4_0 \| 1\.00 MiB \| 6\.32 \| \d\.\d{3} \| 0\.0\d{4} \| 9\d\.\d % \| /m);
    const results = JSON.parse(readFileSync(json, "utf8"));
    const { loss, nearest, overall } = results.rows.Q4_0;
    expect(loss.kl).toBeGreaterThan(0);
    expect(loss.kl).toBeLessThan(nearest.kl);
    expect(overall.numItems).toBe(8);
    expect(existsSync(`${json}.work`)).toBe(false);

    // What is there is believed; a method that measures anew would write its own figure.
    results.rows.Q4_0.loss.kl = 0.54321;
    writeFileSync(json, JSON.stringify(results));
    const again = measure(...flags, "--types", "Q4_0");
    expect(again).toContain("0.54321");
    expect(() => measure(...flags, "--types", "Q4_0", "--count", "9")).toThrow();
  },
  TIMEOUT_MS,
);

test(
  "speeds of a type stand beside those of the original in the same round",
  () => {
    const json = join(tempTree({}), "speed.json");
    const shape = ["--prefill-tokens", "16", "--gen-tokens", "8", "--rounds", "2"];
    const table = measure(
      "--speed",
      "--json",
      json,
      "--model",
      "models/mill-base.gguf",
      "--types",
      "F16,Q8_0",
      ...shape,
    );
    expect(table).toMatch(/^\| F16 \| 11\.76 MiB \| 100 % \| \d+(\.\d+)? MiB \|/m);
    expect(table).toMatch(/^\| Q8_0 \| \d\.\d\d MiB \| 5\d % \|.* × \|/m);
    const { rows } = JSON.parse(readFileSync(json, "utf8"));
    expect(rows.Q8_0.rounds).toHaveLength(2);
    expect(rows.Q8_0.rounds[0].decode16).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);
