/** `millrace batch` without anything to answer, and when it is stopped. */
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";

const REQUEST = { custom_id: "a", method: "POST", url: "/v1/chat/completions", body: { messages: [] } };
let gateway: Awaited<ReturnType<typeof startStandIn>>;
let folder: string;

beforeEach(async () => {
  folder = tempTree({ "empty.jsonl": "", "blank.jsonl": "\n\n", "in.jsonl": `${JSON.stringify(REQUEST)}\n` });
  gateway = await startStandIn((received, outgoing) => {
    process.emit("SIGINT", "SIGINT");
    return answerJson({ output_file_id: "f" })(received, outgoing);
  });
});
afterEach(() => gateway.die());

const FAULTS = [
  ["none.jsonl", "no file of that name"],
  [".", "a folder"],
  ["empty.jsonl", "an empty file"],
  ["blank.jsonl", "an empty file"],
];
const COMMANDS = ["create", "run"];

test.each(
  COMMANDS.flatMap((command) => FAULTS.map(([name, got]) => ({ command, name: name!, got }))),
)("batch $command of $name is refused before anything is asked: $got", async ({ command, name, got }) => {
  const path = join(folder, name);
  const more = command === "run" ? [join(folder, "out.jsonl")] : [];
  const { stdout, stderr, exitCode } = await runMain("batch", command, path, ...more, "--url", gateway.url);
  expect(stderr).toMatch(/^error \[file_unreadable\]: expected requests in /);
  expect(stderr.split("\n")).toEqual([expect.stringMatching(`, got ${got}$`), expect.stringMatching(/^hint: /), ""]);
  expect({ stdout, exitCode, received: gateway.received }).toEqual({ stdout: "", exitCode: 1, received: [] });
});

test("Ctrl-C ends a run with its exit code, and without an error", async () => {
  const paths = ["in.jsonl", "out.jsonl"].map((name) => join(folder, name));
  const { stderr, exitCode } = await runMain("batch", "run", ...paths, "--url", gateway.url);
  expect(stderr).toContain("stopping; the same command resumes from here");
  expect(stderr).not.toContain("error");
  expect(exitCode).toBe(130);
});

test("answers cannot be saved in no folder", async () => {
  const path = join(folder, "none", "out.jsonl");
  const { stderr, exitCode } = await runMain("batch", "show", "b", "--output", path, "--url", gateway.url);
  expect(stderr).toMatch(/^error \[invalid_option\]: expected a folder for /);
  expect({ exitCode, numAsked: gateway.received.length }).toEqual({ exitCode: 2, numAsked: 1 });
});

test("answers are saved where bytes only pass, too", async () => {
  const { stdout, exitCode } = await runMain("batch", "show", "b", "--output", "/dev/stdout", "--url", gateway.url);
  expect({ stdout, exitCode }).toMatchObject({ stdout: expect.stringContaining("saved /dev/stdout") });
  expect(stdout.startsWith('{"output_file_id":"f"}')).toBe(true);
});
