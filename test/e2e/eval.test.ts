/** `millrace eval`, as a process on the bundled model: its table, its JSON, chats of a file, and what it refuses. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { cases } from "../helpers/long.js";
import { type Ended, runCli } from "../helpers/run-cli.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

const evaluate = (...args: readonly string[]): Promise<Ended> => runCli("eval", ...args);

test("prints a row for each task, and its progress on stderr", async () => {
  const { stdout, stderr, exitCode } = await evaluate("--tasks", "fact,sort", "--count", "4", "--max-tokens", "40");
  expect({ stderr, exitCode }).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(/fact .* of 4 right/) });
  const [header, ...rows] = stdout.trim().split("\n");
  expect(header).toMatch(/^task +items +right +95 % interval +mean score +tokens\/s$/);
  expect(rows.map((row) => row.split(/ +/).slice(0, 2))).toEqual([
    ["fact", "4"],
    ["sort", "4"],
  ]);
});

const chat = (answer: string, extra: object = {}): string =>
  JSON.stringify({
    messages: [
      { role: "user", content: "Which day comes after Friday?" },
      { role: "assistant", content: answer },
    ],
    check: { kind: "phrase" },
    ...extra,
  });

test("scores the chats of a file, reports the scores as JSON, and is reproducible", async () => {
  const wrong = chat("Never.", { family: "odd" });
  const long = chat("Saturday comes after Friday.", {
    messages: [
      { role: "user", content: "a b c d e f ".repeat(3000) },
      { role: "assistant", content: "Yes." },
    ],
  });
  const root = tempTree({ "chats.jsonl": [chat("Saturday comes after Friday."), wrong, long].join("\n") });
  const args = ["--chats", join(root, "chats.jsonl"), "--json", "--max-tokens", "40"];
  const { stdout, exitCode } = await evaluate(...args);
  expect(exitCode).toBe(0);
  const report = JSON.parse(stdout);
  expect(report).toMatchObject({ model: { name: "mill-base" }, seed: 1_000_001, temperature: 0 });
  const [day, odd] = report.tasks;
  expect(day).toMatchObject({ task: "chats", numItems: 2, exactInterval: [expect.any(Number), expect.any(Number)] });
  expect(day.items[0]).toMatchObject({ expected: "Saturday comes after Friday.", end: "stop" });
  expect(day.items[0].prompt).toEqual([{ role: "user", content: "Which day comes after Friday?" }]);
  expect(day.items[1]).toMatchObject({ end: "refused", exact: false, note: expect.stringContaining("fewer than") });
  expect(odd).toMatchObject({ task: "odd", exact: 0, score: 0 });
  expect(odd.items[0].answer).toBe(day.items[0].answer);
  const again = JSON.parse((await evaluate(...args)).stdout);
  expect(again.tasks[0].items).toEqual(day.items);
});

const STUDENT = join(repositoryRoot(), "models/mill-student.gguf");

test("a smaller model fails against the answers of a run, and the exit code says so", async () => {
  const run = join(tempTree({}), "base.json");
  const items = ["--tasks", "fact,sort", "--count", "30", "--max-tokens", "200"];
  expect((await evaluate(...items, "--out", run)).exitCode).toBe(0);
  const { stdout, stderr, exitCode } = await evaluate(
    ...items,
    "--model",
    STUDENT,
    "--baseline",
    run,
    "--max-drop",
    "2",
  );
  expect(stderr).toMatch(/^60 items show that an equally good model .*80 % need 837 and 1578 items/m);
  expect(stdout).toMatch(/^task +items +before +after +drop in points +95 % interval +lost +won +McNemar p\nfact/);
  expect(stdout).toMatch(/^fails: the drop is above 2 points, with 95 % confidence$/m);
  expect(exitCode).toBe(1);
  const other = await evaluate("--tasks", "extract", "--count", "2", "--baseline", run);
  expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("answers to the same chats") });
});

test("a model behind a server is as good as the same model here, and rounds end once that is known", async () => {
  await using server = await startTestServer([]);
  const items = ["--tasks", "fact,extract", "--count", "400", "--max-tokens", "100"];
  const maxDrop = cases(10, 5);
  const gate = ["--baseline", server.url, "--max-drop", `${maxDrop}`, "--stop-early", "--json"];
  const { stdout, exitCode } = await evaluate(...items, ...gate);
  const { comparison, baseline, tasks } = JSON.parse(stdout);
  expect({ exitCode, baseline: baseline.url }).toEqual({ exitCode: 0, baseline: server.url });
  expect(comparison).toMatchObject({ verdict: "passes", isSequential: true, numUnpaired: 0, maxDrop: maxDrop / 100 });
  expect(comparison.overall).toMatchObject({ numLost: 0, numWon: 0, p: 1 });
  expect(comparison.overall.numItems).toBeLessThan(800);
  expect(tasks.map(({ task }: { task: string }) => task)).toEqual(["fact", "extract"]);
});

const POEMS = `task: poems
dataset_path: json
dataset_kwargs: {data_files: ROOT/poems.jsonl}
test_split: train
output_type: loglikelihood_rolling
doc_to_target: text
`;

test("a task file of lm-evaluation-harness needs no chat template, and texts alone have no baseline", async () => {
  const root = tempTree({ "poems.jsonl": '{"text": "Once upon a time there was a fox."}' });
  const file = join(tempTree({ "poems.yaml": POEMS.replace("ROOT", root) }), "poems.yaml");
  const model = join(repositoryRoot(), "test/fixtures/models/stories260k.gguf");
  const { stdout, exitCode } = await evaluate("--model", model, "--tasks", file);
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/^poems +1 +0$/m);
  expect(stdout).toMatch(/^task +metric +filter +value +standard error\npoems +word_perplexity +none +\d+\.\d{4}$/m);
  const paired = await evaluate("--model", model, "--tasks", file, "--baseline", model);
  expect(paired).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("tasks without right answers") });
  const chats = await evaluate("--model", model, "--tasks", "fact", "--count", "1");
  expect(chats).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("template_missing") });
});

test("options of a gate without a baseline, and a baseline that is no run, are refused", async () => {
  const alone = await evaluate("--stop-early", "--count", "1");
  expect(alone).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("expected --baseline") });
  const root = tempTree({ "run.json": '{"tasks": []}' });
  const noRun = await evaluate("--tasks", "fact", "--count", "1", "--baseline", join(root, "run.json"));
  expect(noRun).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("millrace eval --json > before.json") });
});

test("refuses unknown tasks and files without chats before a model is loaded", async () => {
  const unknown = await evaluate("--tasks", "extract,poems");
  expect(unknown).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/extract.*got "poems"/) });
  const root = tempTree({ "bad.jsonl": `${chat("a")}\n{"messages": []}` });
  const bad = await evaluate("--chats", join(root, "bad.jsonl"));
  expect(bad).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("bad.jsonl, line 2") });
  const missing = await evaluate("--chats", join(root, "none.jsonl"));
  expect(missing).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("file_unreadable") });
});
