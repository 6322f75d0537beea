/** An instance's log: bounded on disk, with the last lines at hand. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { InstanceLog } from "./instance-log.js";

const fail = (error: unknown): never => {
  throw error;
};

describe("a log", () => {
  it("keeps its newest bytes in two files of bounded size, and continues an earlier log", async () => {
    const chunks = fc.array(fc.string({ minLength: 1, maxLength: 60 }), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(chunks, chunks, async (first, second) => {
        const path = join(tempTree({}), "logs", "m-0.log");
        for (const part of [first, second]) {
          const log = new InstanceLog(path, fail, 1000);
          await Promise.all(part.map((chunk) => log.write(Buffer.from(chunk))));
          await log.close();
        }
        const whole = Buffer.from([...first, ...second].join(""));
        const read = (file: string) =>
          statSync(file, { throwIfNoEntry: false }) ? readFileSync(file) : Buffer.alloc(0);
        const [older, newer] = [read(`${path}.1`), read(path)];
        expect(older.length).toBeLessThanOrEqual(1000);
        expect(newer.length).toBeLessThanOrEqual(1000);
        const kept = Buffer.concat([older, newer]);
        expect(kept.equals(whole.subarray(whole.length - kept.length))).toBe(true);
        if (whole.length <= 1000) expect(kept.length).toBe(whole.length);
      }),
      { numRuns: 20 },
    );
  });

  it("is readable only by its owner", async () => {
    const path = join(tempTree({}), "m-0.log");
    const log = new InstanceLog(path, fail);
    await log.write("text");
    await log.close();
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it("returns its last lines, readable and without the key", async () => {
    const log = new InstanceLog(join(tempTree({}), "m-0.log"), fail);
    await log.write("\u001b[31mfirst\u001b[0m\r\n");
    await log.write(Buffer.from([0xff, 0x00, 0x07]));
    await log.write("--api-key sk-1 --x\n\n");
    expect(log.lastLines("sk-1")).toBe("first\n--api-key *** --x");
    for (let line = 0; line < 1000; line++) await log.write(`line ${line}\n`);
    expect(log.lastLines(undefined).split("\n").at(0)).toBe("line 988");
    log.forgetTail();
    expect(log.lastLines(undefined)).toBe("");
    await log.close();
  });

  it("reports a full disk and continues", async () => {
    const errors: unknown[] = [];
    const log = new InstanceLog(join(tempTree({ file: "" }), "file", "m-0.log"), (error) => errors.push(error));
    await log.write("text\n");
    await log.write("more\n");
    expect(errors).toHaveLength(1);
    expect(log.lastLines(undefined)).toBe("text\nmore");
  });
});
