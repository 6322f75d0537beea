/** `millrace eval`, as a process on the bundled model: its table, its JSON, chats of a file, and what it refuses. */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { toolTemplate } from "../helpers/chat-templates.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { cases } from "../helpers/long.js";
import { type Ended, runCli } from "../helpers/run-cli.js";
import { runMain } from "../helpers/run-main.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

// Two processes of a model in some tests, which machines that others use compute in twice the time.
vi.setConfig({ testTimeout: 180_000 });

const evaluate = (...args: readonly string[]): Promise<Ended> => runCli("eval", ...args);
/** For refusals before any work: in this process, without a start of Node for each. */
const refusal = (...args: readonly string[]): Promise<Ended> => runMain("eval", ...args);

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
  const items = ["--tasks", "fact,sort", "--count", "30", "--max-tokens", "60"];
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
  const count = cases(100, 400);
  const items = ["--tasks", "fact,extract", "--count", `${count}`, "--max-tokens", "60"];
  const maxDrop = cases(20, 5);
  const gate = ["--baseline", server.url, "--max-drop", `${maxDrop}`, "--stop-early", "--json"];
  const { stdout, exitCode } = await evaluate(...items, ...gate);
  const { comparison, baseline, tasks } = JSON.parse(stdout);
  expect({ exitCode, baseline: baseline.url }).toEqual({ exitCode: 0, baseline: server.url });
  expect(comparison).toMatchObject({ verdict: "passes", isSequential: true, numUnpaired: 0, maxDrop: maxDrop / 100 });
  expect(comparison.overall).toMatchObject({ numLost: 0, numWon: 0, p: 1 });
  expect(comparison.overall.numItems).toBeLessThan(2 * count);
  expect(tasks.map(({ task }: { task: string }) => task)).toEqual(["fact", "extract"]);
});

test("tools are offered to a server's model, whose calls are checked; a model here is refused", async () => {
  const template = join(tempTree({ "tools.jinja": toolTemplate.source }), "tools.jinja");
  await using server = await startTestServer(["--chat-template", template]);
  const own = ["--tasks", "tools", "--count", "6", "--max-tokens", "24"];
  const [served, here] = await Promise.all([evaluate(...own, "--url", server.url, "--json"), evaluate(...own)]);
  const [{ numItems, items }] = JSON.parse(served.stdout).tasks;
  expect(numItems).toBe(6);
  for (const { end, prompt } of items) expect({ end, prompt }).not.toMatchObject({ end: "refused" });
  expect(here).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/behind a server for checks of tool calls.*\n.*--url/),
  });
});

test("a text's perplexity here is a server's, and a recorded run is a baseline; no text is refused", async () => {
  await using server = await startTestServer([]);
  const folder = tempTree({
    "text.txt": Array.from({ length: 60 }, (_, day) => `On day ${day} the fox went to the river.\n`).join(""),
    "empty.txt": "",
    "run.json": "{}",
  });
  const run = join(folder, "before.json");
  const own = ["--text-file", join(folder, "text.txt"), "--window", "64", "--count", "4"];
  const first = await evaluate(...own, "--out", run);
  expect(first.stdout).toMatch(
    /^over the text +value +95 % interval\nperplexity +[\d.]+ +[\d.]+ to [\d.]+\nscored +256 of \d{3} tokens\n/,
  );
  const { stdout, exitCode } = await evaluate(...own, "--url", server.url, "--baseline", run, "--json");
  const { comparison, perplexity, model, windows } = JSON.parse(stdout);
  expect({ exitCode, model, numWindows: windows.length }).toEqual({
    exitCode: 0,
    model: { name: "mill-base" },
    numWindows: 4,
  });
  expect(comparison.kl.max).toBeLessThan(1e-5);
  expect(comparison.perplexityBefore.value).toBeCloseTo(perplexity.value, 4);
  const [none, other] = await Promise.all([
    evaluate("--text-file", join(folder, "empty.txt")),
    evaluate(...own, "--baseline", join(folder, "run.json")),
  ]);
  expect(none).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("a text with tokens in --text") });
  expect(other).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("a run of eval --text-file in") });
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
  const alone = await refusal("--stop-early", "--count", "1");
  expect(alone).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("expected --baseline") });
  const root = tempTree({ "run.json": '{"tasks": []}' });
  const noRun = await evaluate("--tasks", "fact", "--count", "1", "--baseline", join(root, "run.json"));
  expect(noRun).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("millrace eval --json > before.json") });
});

test("refuses unknown tasks and files without chats before a model is loaded", async () => {
  const unknown = await refusal("--tasks", "extract,poems");
  expect(unknown).toMatchObject({ exitCode: 2, stderr: expect.stringMatching(/extract.*got "poems"/) });
  const root = tempTree({ "bad.jsonl": `${chat("a")}\n{"messages": []}` });
  const bad = await refusal("--chats", join(root, "bad.jsonl"));
  expect(bad).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("bad.jsonl, line 2") });
  const missing = await refusal("--chats", join(root, "none.jsonl"));
  expect(missing).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("file_unreadable") });
});

const openChat = (content: string): string =>
  JSON.stringify({ messages: [{ role: "user", content }], check: { kind: "judge" } });
const label = (index: number): string => {
  const answers = index % 2 === 0 ? ["Paris.", "I like cheese."] : ["I like cheese.", "Paris."];
  const human = index % 2 === 0 ? "first" : "second";
  return JSON.stringify({ prompt: "What is the capital of France?", answers, human });
};
const labels = (count: number): string => Array.from({ length: count }, (_, index) => label(index)).join("\n");

test("the bundled model is a poor judge: its calibration says so, and a gate refuses it", async () => {
  const numLabels = cases(20, 40);
  const questions = ["Which day comes after Friday?", "Write a sentence about a fox.", "What is 3 + 4?"];
  const root = tempTree({ "open.jsonl": questions.map(openChat).join("\n"), "labels.jsonl": labels(numLabels) });
  const [chats, run] = [join(root, "open.jsonl"), join(root, "before.json")];
  const first = await evaluate("--chats", chats, "--out", run);
  expect(first).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^chats:judge +3 +\d+$/m) });
  const judging = ["--judge", join(repositoryRoot(), "models/mill-base.gguf"), "--judge-labels"];
  const options = [...judging, join(root, "labels.jsonl"), "--max-drop", "10", "--json"];
  const paired = await evaluate("--chats", chats, "--model", STUDENT, "--baseline", run, ...options);
  const { judgement } = JSON.parse(paired.stdout);
  expect({ exitCode: paired.exitCode, verdict: judgement.verdict }).toEqual({ exitCode: 1, verdict: "refused" });
  expect(judgement.calibration).toMatchObject({ numLabels, isFit: false });
  expect(judgement.overall).toMatchObject({ numPairs: 3, numNone: 0 });
  expect(judgement.corrected).toBeUndefined();
  const alone = await evaluate("--chats", chats, "--baseline", run);
  expect(alone).toMatchObject({ exitCode: 2, stderr: expect.stringContaining("expected --judge to be given") });
});

test("a judge behind a server that agrees with people passes a better model, and its table says by how much", async () => {
  const seen: string[] = [];
  const server = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    seen.push(String(request.headers.authorization));
    const asked = JSON.parse(JSON.parse(text).messages[0].content.split("\n\n")[2]);
    const verdict = asked.answer_A.includes("cheese") ? "B" : "A";
    const message = { role: "assistant", content: JSON.stringify({ verdict }) };
    response.end(JSON.stringify({ choices: [{ message, finish_reason: "stop" }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const root = tempTree({ "labels.jsonl": labels(60) });
  const items = ["--tasks", "fact", "--count", "30", "--max-tokens", "40"];
  const run = join(root, "before.json");
  await evaluate(...items, "--out", run);
  const worse = join(
    tempTree({ "worse.json": readFileSync(run, "utf8").replaceAll(/"answer":"[^"]*"/g, '"answer":"cheese"') }),
    "worse.json",
  );
  const judging = [
    "--judge",
    url,
    "--judge-model",
    "j",
    "--judge-key",
    "k",
    "--judge-labels",
    join(root, "labels.jsonl"),
  ];
  const { stdout, exitCode } = await evaluate(...items, "--baseline", worse, ...judging, "--max-drop", "10");
  server.close();
  expect({ exitCode, stdout }).toMatchObject({ exitCode: 0 });
  expect(stdout).toMatch(/^all +30 +30 +0 +0 +0 +100\.0 % /m);
  expect(stdout).toMatch(/^people: it agrees with them on 100\.0 % .* of 60 pairs; chance gives 50\.0 %; kappa 1\.00/m);
  expect(stdout).toMatch(/^passes: people would see losses above wins by less than 10 points, with 95 % confidence$/m);
  expect(new Set(seen)).toEqual(new Set(["Bearer k"]));
});

test("flags of a judge that lack another, and labels that are none, are refused", async () => {
  const root = tempTree({ "labels.jsonl": `${label(0)}\n{"prompt": "a", "answers": ["b"], "human": "first"}` });
  const items = ["--tasks", "fact", "--count", "1"];
  const judging = [...items, "--baseline", "x.json", "--judge", "http://127.0.0.1:9"];
  const refused: readonly (readonly [readonly string[], string])[] = [
    [[...items, "--judge-labels", "x"], "expected --judge to be given"],
    [[...items, "--judge", "http://127.0.0.1:9"], "expected --baseline to be given"],
    [[...items, "--judge", "run.json", "--baseline", "x.json"], "expected --judge to be a URL or a model"],
    [[...judging, "--stop-early"], "expected --stop-early to be left out"],
    [[...judging, "--max-drop", "2"], "expected --judge-labels to be given"],
    [[...judging, "--judge-labels", join(root, "labels.jsonl")], "labels.jsonl, line 2"],
  ];
  for (const [args, message] of refused) {
    const { exitCode, stderr } = await refusal(...args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(message) });
  }
});
