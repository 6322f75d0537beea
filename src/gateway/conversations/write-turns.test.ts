import { expect, test } from "vitest";
import { WriteTurns } from "./write-turns.js";

const written = async (): Promise<string> => "written";
const codeOf = (run: Promise<unknown>): Promise<unknown> =>
  run.then(
    () => "ok",
    (thrown: { code: string; retryAfterSeconds: number }) => [thrown.code, thrown.retryAfterSeconds],
  );

test("a client writes one at a time, and others beside it up to a number", async () => {
  const turns = new WriteTurns();
  let end = (): void => {};
  const held = new Promise<void>((resolve) => {
    end = resolve;
  });
  const first = turns.run("a", () => held);
  expect(await codeOf(turns.run("a", written))).toEqual(["rate_limit_exceeded", 1]);
  expect(await turns.run("b", written)).toBe("written");
  const others = Array.from({ length: 31 }, (_, i) => turns.run(`c${i}`, () => held));
  expect(await codeOf(turns.run("b", written))).toEqual(["rate_limit_exceeded", 1]);
  end();
  await Promise.all([first, ...others]);
  expect(await turns.run("a", written)).toBe("written");
});

test("a client that writes all the time is told to wait, and its failures count", async () => {
  let nowMs = 0;
  const turns = new WriteTurns(() => nowMs);
  const failing = () => Promise.reject(new Error("no"));
  for (let i = 0; i < 60; i++) await turns.run("a", failing).catch(() => {});
  expect(await codeOf(turns.run("a", written))).toEqual(["rate_limit_exceeded", 1]);
  expect(await turns.run("b", written)).toBe("written");
  nowMs = 1000;
  expect(await turns.run("a", written)).toBe("written");
  expect(await codeOf(turns.run("a", written))).toEqual(["rate_limit_exceeded", 1]);
});
