import { expect, test } from "vitest";
import { createLogger, type LogFormat } from "./log.js";

function written(format: LogFormat, isTTY: boolean, log: (logger: ReturnType<typeof createLogger>) => void): string {
  let text = "";
  const stream = {
    isTTY,
    write: (piece: string) => {
      text += piece;
    },
  };
  log(createLogger("info", format, stream));
  return text;
}

test("a terminal gets a line for people, a pipe gets JSON, and the flag decides for both", () => {
  const log = (logger: ReturnType<typeof createLogger>): void =>
    logger.child({ instance: "m-1" }).info({ status: 400, path: "/v1/x y", nested: { a: 1 } }, "refused");
  const forPeople = /^\d\d:\d\d:\d\d info {2}refused instance=m-1 status=400 path="\/v1\/x y"\n$/;
  expect(written("auto", true, log)).toMatch(forPeople);
  expect(written("text", false, log)).toMatch(forPeople);
  for (const text of [written("auto", false, log), written("json", true, log)]) {
    expect(JSON.parse(text)).toMatchObject({ msg: "refused", status: 400, nested: { a: 1 } });
  }
});

test("errors are told with their stack, below the line", () => {
  const text = written("text", false, (logger) => logger.error({ err: new RangeError("too far") }, "failed"));
  expect(text).toMatch(/ error failed\n {2}RangeError: too far\n {2} +at /);
});

test("what comes from outside cannot move the cursor or begin a line of its own", () => {
  const text = written("text", false, (logger) =>
    logger.warn({ field: "\u001b[2J\n00:00:00 info  forged", other: "\u202egnp" }, "ignored \u001b]0;x\u0007\r\n"),
  );
  expect(text.trimEnd().split("\n")).toHaveLength(1);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they must not be there
  expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
});

test("warnings stand out by colour on a terminal only", () => {
  const log = (logger: ReturnType<typeof createLogger>): void => logger.warn("late");
  expect(written("text", true, log)).toContain("\u001b[33mwarn \u001b[0m late");
  expect(written("text", false, log)).not.toContain("\u001b");
});
