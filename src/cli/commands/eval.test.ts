/** `millrace eval` that is stopped, or whose address is not a server. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";

const chat = (question: string): string =>
  JSON.stringify({
    messages: [
      { role: "user", content: question },
      { role: "assistant", content: "yes" },
    ],
    check: { kind: "phrase" },
  });
const QUESTIONS = ["a?", "b?", "c?", "d?"];
let server: Awaited<ReturnType<typeof startStandIn>>;
let folder: string;
let numUntilStop: number;

beforeEach(async () => {
  folder = tempTree({ "chats.jsonl": QUESTIONS.map(chat).join("\n") });
  const answer = answerJson({ choices: [{ message: { content: "yes" }, finish_reason: "stop" }] });
  const list = answerJson({ object: "list", data: [{ id: "m" }] });
  server = await startStandIn((received, outgoing) => {
    if (received.path === "/v1/models") list(received, outgoing);
    else if (numUntilStop-- === 0) process.emit("SIGINT", "SIGINT");
    else answer(received, outgoing);
  });
});
afterEach(() => server.die());

const evaluate = (...args: readonly string[]) =>
  runMain(
    "eval",
    "--chats",
    join(folder, "chats.jsonl"),
    "--url",
    server.url,
    "--model",
    "m",
    "--concurrency",
    "1",
    ...args,
  );

test("Ctrl-C shows and keeps what is answered, beside an earlier run, which it is no part of", async () => {
  const out = join(folder, "run.json");
  numUntilStop = 4;
  expect(await evaluate("--out", out)).toMatchObject({ exitCode: 0 });
  const whole = readFileSync(out, "utf8");
  numUntilStop = 2;
  const { stdout, stderr, exitCode } = await evaluate("--out", out);
  expect(stdout).toMatch(/^task .*\nchats +2 +100\.0 %.*\n\nstopped after 2 of 4 items\n$/s);
  expect(stderr).toContain("stopping; what is answered is shown as a partial run");
  expect([exitCode, readFileSync(out, "utf8")]).toEqual([130, whole]);
  const partial = JSON.parse(readFileSync(join(folder, "run.partial.json"), "utf8"));
  expect(partial).toMatchObject({ isPartial: true, tasks: [{ task: "chats", numItems: 2 }] });

  numUntilStop = 3;
  const compared = await evaluate("--baseline", join(folder, "run.partial.json"), "--max-drop", "1", "--json");
  expect(JSON.parse(compared.stdout)).toMatchObject({
    isPartial: true,
    comparison: { overall: { numItems: 2 } },
    tasks: [{ numItems: 3 }],
  });
  expect(compared.exitCode).toBe(130);
});

test("Ctrl-C before the first answer leaves nothing", async () => {
  numUntilStop = 0;
  const { stdout, exitCode } = await evaluate("--out", join(folder, "run.json"));
  expect({ stdout, exitCode }).toEqual({ stdout: "", exitCode: 130 });
  expect(["run.json", "run.partial.json"].map((name) => existsSync(join(folder, name)))).toEqual([false, false]);
});

test("Ctrl-C in a comparison keeps the answers of the model that has some", async () => {
  const out = join(folder, "run.json");
  const compare = ["--baseline", server.url, "--max-drop", "1", "--out", out];
  numUntilStop = 2;
  const { stdout, stderr, exitCode } = await evaluate(...compare);
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 130 });
  expect(stdout).toMatch(/^task .*\nchats +2 +100\.0 %.*\n\nstopped after 2 of 4 items\n$/s);
  const partial = JSON.parse(readFileSync(join(folder, "run.partial.json"), "utf8"));
  expect(partial).toMatchObject({ isPartial: true, tasks: [{ task: "chats", numItems: 2 }] });
  expect(existsSync(out)).toBe(false);
});
