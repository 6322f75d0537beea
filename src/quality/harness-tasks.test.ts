import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { harnessTasks } from "./tasks.js";

const BASE = `task: small
dataset_path: json
dataset_kwargs: {data_files: {test: ROOT/d.jsonl}}
test_split: test
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
`;

/** The task of a file with these lines after the usual ones. */
function tasksWith(lines: string, documents = '{"q": "2 + 2?", "a": "4", "num": 1.0, "m": [1.0]}', base = BASE) {
  const root = tempTree({ "d.jsonl": documents, "unused.yaml": "" });
  const file = join(tempTree({ "t.yaml": `${base.replace("ROOT", root)}${lines}\n` }), "t.yaml");
  return harnessTasks([file], 10);
}

test("the usual lines are a task", () => {
  const [task] = tasksWith("task_alias: other\ntag: [a]\nmetadata: {version: 1}");
  expect(task).toMatchObject({ name: "small", isJudged: true });
  expect(task!.chats[0]!.messages).toEqual([
    { role: "user", content: "2 + 2?" },
    { role: "assistant", content: "4" },
  ]);
});

test.each([
  ["process_docs: !function utils.docs", /process_docs of .*t.yaml.*got !function utils.docs/],
  ["filter_list: [{name: a, filter: [{function: !function utils.F}]}]", /filter_list.*!function utils.F/],
  ["use_prompt: promptsource", /use_prompt of .* left out, as it is not supported, got "promptsource"/],
  [
    "dataset_path: EleutherAI/hendrycks",
    /dataset_path of .* "json", whose data_files are local files, got "EleutherAI/,
  ],
  ["dataset_kwargs: {data_files: {train: x.jsonl}}", /data_files .* files by split, with "test", got train/],
  ["repeats: 4", /repeats of/],
  ["output_type: winning", /output_type of .*multiple_choice/],
  ["metric_list: [{metric: bleu}]", /metric_list.0.metric of .*"acc"\|/],
  ["metric_list: [{metric: acc}]", /metric_list of .* exact_match for generate_until, got acc/],
  [
    "metric_list: [{metric: exact_match, aggregation: perplexity}]",
    /aggregation of exact_match of .* mean, got perplexity/,
  ],
  ["metric_list: [{metric: exact_match, regexes_to_ignore: ['(']}]", /a regular expression of .*Invalid/],
  ["generation_kwargs: {num_beams: 4}", /generation_kwargs.num_beams of .* not supported, got 4/],
  ["output_type: multiple_choice", /doc_to_choice of .* given for output_type multiple_choice/],
  [
    "output_type: loglikelihood\nfilter_list: [{name: a, filter: [{function: take_first}]}]",
    /filter_list of .* loglikelihood/,
  ],
  ["num_fewshot: 2", /num_fewshot of .* at most 1, .* got 2/],
  ["num_fewshot: 1\nfewshot_split: test", /num_fewshot of .* at most 0, .* got 1/],
  ["fewshot_config: {fewshot_indices: [1]}", /fewshot_config.fewshot_indices of .* not supported/],
  ["doc_to_choice: '{{q}}'", /doc_to_choice of .* list of texts, got "2 \+ 2\?" for a document/],
  ["doc_to_choice: [a, b]\ndoc_to_text: '{{a}}'", /doc_to_text of .* a text other than a number, got "4"/],
  ["doc_to_choice: [a, b]", /doc_to_target of .* the index of a choice, got 4/],
  ["output_type: loglikelihood_rolling\ndoc_to_target: ''", /doc_to_target of .* loglikelihood_rolling/],
  ["doc_to_text: '{{question}}'", /template "{{question}}" to render, got a failure: question is undefined/],
  ["doc_to_text: '{{q'", /one that does not parse/],
  ["doc_to_text: num", /doc_to_text of .* a text, got/],
  ["doc_to_choice: m", /doc_to_choice of .* list of texts/],
  ["doc_to_choice: [yes, no]", /doc_to_choice/],
  ["num_fewshot: -1", /num_fewshot of .* to be number to be >=0, got -1/],
  ["include: other.yaml", /a task in .*other.yaml/],
  ["include: t.yaml", /include of .* files that do not include each other/],
  [
    `output_type: generate_until\nfilter_list: [{name: f, filter: [{function: regex, regex_pattern: "${"a".repeat(10_001)}"}]}]`,
    /regex_pattern of .*<=10000/,
  ],
  [
    "doc_to_text: '{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}'",
    /more work than an input of this size may take/,
  ],
  ["a: [", /the file of .* to be YAML/],
])("refuses %s", (lines, message) => {
  const replaced = lines.split("\n").map((line) => line.split(":")[0]!);
  const base = BASE.split("\n").filter((line) => !replaced.includes(line.split(":")[0]!));
  expect(() => tasksWith(lines, undefined, base.join("\n"))).toThrow(message);
});

test.each([
  ["[1]", "a JSON object"],
  ['{"q": ', "d.jsonl, line 1"],
  ["", "got none"],
  ['[{"q": 1}, 2]', "a JSON object"],
])("refuses documents %s", (documents, message) => {
  expect(() => tasksWith("", documents)).toThrow(message);
});

test("a list, a file that is missing, and two tasks of one name are refused", () => {
  const root = tempTree({ "list.yaml": "- a", "n.yaml": BASE.replace("ROOT/d.jsonl", "/nowhere.jsonl") });
  expect(() => harnessTasks([join(root, "list.yaml")], 1)).toThrow("a mapping of keys to values");
  expect(() => harnessTasks([join(root, "n.yaml")], 1)).toThrow("/nowhere.jsonl");
  const file = join(
    tempTree({ "t.yaml": BASE.replace("ROOT", tempTree({ "d.jsonl": '{"q": "a", "a": "b"}' })) }),
    "t.yaml",
  );
  expect(() => harnessTasks([file, file], 1)).toThrow('different names, got "small" twice');
});

test("files that include one file twice, and so on, read each once", () => {
  const chain = Array.from({ length: 40 }, (_, i) => [`${i}.yaml`, `include: [${i + 1}.yaml, ${i + 1}.yaml]`] as const);
  const root = tempTree({ ...Object.fromEntries(chain), "d.jsonl": '{"q": "a", "a": "b"}' });
  writeFileSync(join(root, "40.yaml"), BASE.replace("ROOT", root));
  expect(harnessTasks([join(root, "0.yaml")], 1)).toMatchObject([{ name: "small" }]);
});
