/**
 * lm-evaluation-harness and `millrace eval` on the same task files, documents and server, item by item. Needs a Python
 * with lm_eval (MILLRACE_PYTHON): `pip install "lm_eval[api]"`.
 */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { chatAt, readMixture } from "../../models/corpus/families.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { expectSameNumbers, type HarnessNumbers } from "../helpers/lm-eval-numbers.js";
import { canImport, python } from "../helpers/python.js";
import { runCli } from "../helpers/run-cli.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

const isPresent = canImport("lm_eval, aiohttp, tenacity", 'pip install "lm_eval[api]"');
const SEED = 1_000_001;
const MINUTE_MS = 60_000;

interface Exchange {
  readonly question: string;
  readonly answer: string;
}

/** The last turns of chats of one family. */
function exchanges(family: string, count: number): Exchange[] {
  const mixture = readMixture(family);
  return Array.from({ length: count }, (_, index) => {
    const { messages } = chatAt(SEED, index, mixture);
    return { question: messages.at(-2)!.content, answer: messages.at(-1)!.content };
  });
}

const lines = (documents: readonly object[]): string => documents.map((each) => JSON.stringify(each)).join("\n");

/** Each answer beside three of other questions, in an order that differs by question. */
function withChoices(all: readonly Exchange[]): object[] {
  const answers = [...new Set(all.map(({ answer }) => answer))];
  return all.map(({ question, answer }, index) => {
    const others = answers.filter((other) => other !== answer).slice(index % 10, (index % 10) + 3);
    return { question, choices: others.toSpliced(index % 4, 0, answer), label: index % 4 };
  });
}

const TURN = "<|im_start|>user\\n{{question}}<|im_end|>\\n<|im_start|>assistant\\n";

function files(root: string): Record<string, string> {
  const facts = withChoices(exchanges("fact", 120));
  const sums = exchanges("arithmetic", 130);
  const stories = exchanges("story", 400).map(({ answer }) => answer);
  const long = Array.from({ length: 20 }, (_, index) => ({
    text: stories.slice(index, 3 * index).join("\n\n") || stories[0]!,
  }));
  return {
    "facts.jsonl": lines(facts.slice(20)),
    "fact-shots.jsonl": lines(facts.slice(0, 20)),
    "sums.jsonl": lines(sums),
    "stories.jsonl": lines(stories.slice(0, 100).map((text) => ({ text: text.trim() }))),
    "long.jsonl": lines(long),
    "facts.yaml": `
task: facts
dataset_path: json
dataset_kwargs: {data_files: {train: ${root}/fact-shots.jsonl, test: ${root}/facts.jsonl}}
training_split: train
test_split: test
output_type: multiple_choice
num_fewshot: 3
description: "Short facts.\\n\\n"
doc_to_text: "${TURN}"
doc_to_choice: choices
doc_to_target: label
target_delimiter: ""
fewshot_delimiter: "<|im_end|>\\n"
metric_list: [{metric: acc}, {metric: acc_norm}, {metric: acc_bytes}, {metric: exact_match}, {metric: acc_mutual_info}]
`,
    "sums.yaml": `
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: ${root}/sums.jsonl}}
test_split: test
fewshot_split: test
output_type: generate_until
num_fewshot: 2
doc_to_text: "${TURN}"
doc_to_target: "{{answer}}"
target_delimiter: ""
fewshot_delimiter: "<|im_end|>\\n"
generation_kwargs: {until: ["\\n\\n", "<|im_end|>"], max_gen_toks: 60, temperature: 0}
filter_list:
  - {name: whole, filter: [{function: remove_whitespace}, {function: take_first}]}
  - {name: last, filter: [{function: regex, regex_pattern: '(-?\\d[\\d.,]*)', group_select: -1}, {function: take_first}]}
metric_list: [{metric: exact_match, ignore_punctuation: true, regexes_to_ignore: ['^.*= ']}]
`,
    "words.yaml": `
task: words
dataset_path: json
dataset_kwargs: {data_files: {test: ${root}/stories.jsonl}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' ' + text.split(' ')[-1]}}"
`,
    "long.yaml": `
task: long
dataset_path: json
dataset_kwargs: {data_files: {test: ${root}/long.jsonl}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
`,
  };
}

const TASKS = ["facts", "sums", "words", "long"];

test.skipIf(!isPresent)(
  "both give every item the same log-likelihoods, answers and metrics [needs a Python with lm_eval]",
  async () => {
    const root = tempTree({});
    for (const [name, text] of Object.entries(files(root))) writeFileSync(join(root, name), text);
    const paths = TASKS.map((name) => join(root, `${name}.yaml`));
    await using server = await startTestServer([]);
    const script = join(repositoryRoot(), "test/fixtures/make-lm-eval-numbers.py");
    await promisify(execFile)(python, [script, server.url, "2048", join(root, "numbers.json"), ...paths], {
      timeout: 15 * MINUTE_MS,
      maxBuffer: 2 ** 26,
      env: { ...process.env, HF_HOME: join(root, "cache"), HF_HUB_OFFLINE: "1" },
    });
    const numbers = JSON.parse(readFileSync(join(root, "numbers.json"), "utf8")) as HarnessNumbers;
    const args = ["--tasks", paths.join(","), "--count", "1000", "--json"];
    for (const target of [["--url", server.url], []]) {
      const { stdout, stderr, exitCode } = await runCli("eval", ...args, ...target);
      expect({ stderr, exitCode }).toMatchObject({ exitCode: 0 });
      const { tasks } = JSON.parse(stdout);
      const largest = expectSameNumbers(tasks, numbers);
      console.info(`largest relative difference ${target[1] ?? "in process"}: ${largest.toExponential(1)}`);
    }
  },
  20 * MINUTE_MS,
);
