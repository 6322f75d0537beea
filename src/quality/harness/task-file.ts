/**
 * Task files of lm-evaluation-harness: YAML, with `include`. Unsupported keys are refused by name, since a guess would
 * change the numbers.
 */
import { dirname, resolve } from "node:path";
import { parse, type ScalarTag } from "yaml";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { readText } from "../../core/read-text.js";

/** A Python function that a file names. */
class PythonFunction {
  constructor(readonly name: string) {}
}

const FUNCTION_TAG: ScalarTag = { tag: "!function", resolve: (name) => new PythonFunction(name) };

const template = z.union([z.string(), z.int()]);
const targetField = z.union([template, z.array(z.union([z.string(), z.int()]))]);
const choiceField = z.union([z.string(), z.array(z.string()), z.record(z.string(), z.string())]);
const documentSchema = z.record(z.string(), z.unknown());

/** Limited, because the time of its translation grows faster than its length. */
const pattern = z.string().max(10_000);

const fewshotSchema = z.strictObject({
  sampler: z.enum(["default", "first_n"]).default("default"),
  split: z.string().nullish(),
  samples: z.array(documentSchema).nullish(),
  doc_to_text: template.optional(),
  doc_to_choice: choiceField.optional(),
  doc_to_target: targetField.optional(),
  gen_prefix: z.string().optional(),
  fewshot_delimiter: z.string().optional(),
  target_delimiter: z.string().optional(),
});

const METRICS = [
  "acc",
  "acc_norm",
  "acc_bytes",
  "acc_mutual_info",
  "exact_match",
  "perplexity",
  "word_perplexity",
  "byte_perplexity",
  "bits_per_byte",
] as const;
export type MetricName = (typeof METRICS)[number];

const metricSchema = z.strictObject({
  metric: z.enum(METRICS),
  aggregation: z.enum(["mean", "perplexity", "weighted_perplexity", "bits_per_byte"]).optional(),
  higher_is_better: z.boolean().optional(),
  hf_evaluate: z.literal(false).optional(),
  ignore_case: z.boolean().optional(),
  ignore_punctuation: z.boolean().optional(),
  ignore_numbers: z.boolean().optional(),
  regexes_to_ignore: z.array(pattern).nullish(),
});
export type Metric = z.infer<typeof metricSchema>;

const filterSchema = z.discriminatedUnion("function", [
  z.strictObject({
    function: z.literal("regex"),
    regex_pattern: pattern.default("#### (\\-?[0-9\\.\\,]+)"),
    group_select: z.int().default(0),
    fallback: z.string().default("[invalid]"),
  }),
  z.strictObject({ function: z.literal("remove_whitespace") }),
  z.strictObject({ function: z.literal("lowercase") }),
  z.strictObject({ function: z.literal("uppercase") }),
  z.strictObject({
    function: z.literal("map"),
    mapping_dict: z.record(z.string(), z.coerce.string()),
    default_value: z.coerce.string().nullish(),
  }),
  z.strictObject({ function: z.literal("take_first") }),
]);
export type Filter = z.infer<typeof filterSchema>;

const generationSchema = z.strictObject({
  until: z.union([z.string(), z.array(z.string())]).nullish(),
  max_gen_toks: z.int().min(1).optional(),
  max_tokens: z.int().min(1).optional(),
  temperature: z.coerce.number().min(0).optional(),
  top_p: z.number().min(0).max(1).optional(),
  do_sample: z.boolean().optional(),
});

const pathsSchema = z.union([z.string(), z.array(z.string())]);

/** Keys that do not affect the numbers. */
const IGNORED = ["task_alias", "tag", "metadata", "should_decontaminate", "doc_to_decontamination_query"] as const;

const taskSchema = z.strictObject({
  task: z.string().min(1),
  dataset_path: z.literal("json"),
  dataset_name: z.null().optional(),
  dataset_kwargs: z.strictObject({
    data_files: z.union([pathsSchema, z.record(z.string(), pathsSchema)]),
    trust_remote_code: z.boolean().optional(),
  }),
  training_split: z.string().nullish(),
  validation_split: z.string().nullish(),
  test_split: z.string().nullish(),
  fewshot_split: z.string().nullish(),
  output_type: z
    .enum(["multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until"])
    .default("generate_until"),
  doc_to_text: template.default(""),
  doc_to_target: targetField,
  doc_to_choice: choiceField.nullish(),
  description: z.string().default(""),
  target_delimiter: z.string().default(" "),
  fewshot_delimiter: z.string().default("\n\n"),
  fewshot_config: fewshotSchema.nullish(),
  num_fewshot: z.int().min(0).max(1000).nullish(),
  metric_list: z.array(metricSchema).min(1).nullish(),
  generation_kwargs: generationSchema.nullish(),
  filter_list: z
    .array(z.strictObject({ name: z.string().min(1), filter: z.array(filterSchema).min(1) }))
    .min(1)
    .nullish(),
  repeats: z.literal(1).optional(),
  gen_prefix: z.string().nullish(),
  unsafe_code: z.literal(false).optional(),
  ...Object.fromEntries(IGNORED.map((key) => [key, z.unknown().optional()])),
});

export type TaskFile = z.infer<typeof taskSchema>;

/** Throws file_unreadable, and invalid_option with the key's name. */
export function readTaskFile(path: string): TaskFile {
  const fields = readFields(path, new Map());
  const parsed = taskSchema.safeParse(fields);
  if (parsed.success) return parsed.data;
  throw refusalOf(path, fields, parsed.error.issues[0]!);
}

type Fields = Readonly<Record<string, unknown>>;

/** @param known files read so far, each only once; undefined while a file is being read */
function readFields(path: string, known: Map<string, Fields | undefined>): Fields {
  const file = resolve(path);
  const before = known.get(file);
  if (before !== undefined) return before;
  if (known.has(file)) throw taskError(path, "include", "files that do not include each other", path);
  known.set(file, undefined);
  const text = readText(path, "a task");
  let content: unknown;
  try {
    // Python's YAML is 1.1: yes and no are booleans.
    content = parse(text, { version: "1.1", customTags: (tags) => [...tags, FUNCTION_TAG], logLevel: "error" });
  } catch (thrown) {
    throw taskError(path, "the file", "YAML", (thrown as Error).message.split("\n")[0]!);
  }
  const parsed = z.record(z.string(), z.unknown()).safeParse(content);
  if (!parsed.success) throw taskError(path, "the file", "a mapping of keys to values", typeof content);
  const { include = [], ...own } = parsed.data;
  const included = z.union([z.string().transform((name) => [name]), z.array(z.string())]).safeParse(include);
  if (!included.success) throw taskError(path, "include", "a path or a list of paths", shown(include));
  const all = included.data.map((name) => readFields(resolve(dirname(file), name), known));
  const fields: Fields = Object.assign({}, ...all, own);
  known.set(file, fields);
  return fields;
}

function refusalOf(path: string, fields: unknown, issue: z.core.$ZodIssue): MillraceError {
  const unknown = issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [];
  const keys = [...issue.path, ...unknown];
  const got = valueAt(fields, keys);
  const called = got.find((value) => value instanceof PythonFunction);
  const key = keys.join(".") || "the file";
  if (called !== undefined)
    return taskError(path, key, "something other than a Python function", `!function ${called.name}`);
  if (unknown.length > 0) return taskError(path, key, "left out, as it is not supported", shown(got.at(-1)));
  if (key === "dataset_path")
    return taskError(path, key, '"json", whose data_files are local files', shown(got.at(-1)));
  return taskError(path, key, issue.message.replace(/^.*?expected /, ""), shown(got.at(-1)));
}

/** The values on the way to the keys, outermost first. */
function valueAt(fields: unknown, keys: readonly PropertyKey[]): readonly unknown[] {
  let value = fields;
  return keys.map((key) => {
    value =
      typeof value === "object" && value !== null ? (value as Readonly<Record<PropertyKey, unknown>>)[key] : undefined;
    return value;
  });
}

const shown = (value: unknown): string => (value === undefined ? "nothing" : JSON.stringify(value).slice(0, 120));

/** An error about a key of a task file. */
export const taskError = (path: string, key: string, expected: string, got: string): MillraceError =>
  new MillraceError("invalid_option", `expected ${key} of ${path} to be ${expected}, got ${got}`, {
    hint: "docs/guides/evaluate.md lists what task files may have",
  });
