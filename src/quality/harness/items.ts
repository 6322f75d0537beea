/** The items of a task: the question for each document, and the evaluation of the model's results. */
import type { Document } from "./documents.js";
import type { FieldReader, Target } from "./fields.js";
import { filterOf } from "./filters.js";
import {
  AGGREGATION,
  DEFAULT_METRICS,
  KNOWN_METRICS,
  type MetricValue,
  type MetricValues,
  normaliser,
} from "./metrics.js";
import { type Metric, type TaskFile, taskError } from "./task-file.js";
import {
  type Continuation,
  type Continued,
  generated,
  type LogLikelihood,
  logLikelihood,
  rollingLogLikelihood,
  type TextModel,
} from "./text-model.js";

/** One item's result, in the form of chats' results, with the harness's numbers. */
interface TextOutcome extends Omit<Continued, "text"> {
  readonly answer: string;
  readonly score: number;
  readonly exact: boolean;
  readonly metrics: MetricValues;
  /** Log-probabilities of each choice, or of the text. */
  readonly logprobs?: readonly number[];
  /** The result of each filter. */
  readonly filtered?: Readonly<Record<string, string>>;
}

export interface TextItem {
  readonly context: string;
  readonly expected: string;
  run(model: TextModel, signal: AbortSignal): Promise<TextOutcome>;
}

/** Creates the item of a document with its prompt. */
type MakeItem = (document: Document, context: string) => TextItem;

/** Throws invalid_option and template_failed. */
export function itemMaker(task: TaskFile, fields: FieldReader): MakeItem {
  const metrics = metricsOf(task, fields.path);
  if (task.filter_list && task.output_type !== "generate_until") {
    throw taskError(fields.path, "filter_list", "given beside output_type generate_until only", task.output_type);
  }
  switch (task.output_type) {
    case "multiple_choice":
      return choiceItems(task, fields, metrics);
    case "loglikelihood":
      return likelihoodItems(task, fields, metrics);
    case "loglikelihood_rolling":
      return rollingItems(task, fields, metrics);
    case "generate_until":
      return generatedItems(task, fields, metrics);
  }
}

function metricsOf({ metric_list: list, output_type: type }: TaskFile, path: string): readonly Metric[] {
  const metrics: readonly Metric[] = list ?? DEFAULT_METRICS[type].map((metric) => ({ metric }));
  const known = KNOWN_METRICS[type];
  for (const { metric, aggregation } of metrics) {
    if (!known.includes(metric)) throw taskError(path, "metric_list", `of ${known.join(", ")} for ${type}`, metric);
    if (aggregation === undefined || aggregation === AGGREGATION[metric]) continue;
    throw taskError(path, `the aggregation of ${metric}`, AGGREGATION[metric], aggregation);
  }
  return metrics;
}

const TIMELESS = { numOutputTokens: 0, end: "stop" } as const;

function choiceItems(task: TaskFile, fields: FieldReader, metrics: readonly Metric[]): MakeItem {
  const { doc_to_choice: field, target_delimiter: delimiter } = task;
  if (field == null) throw taskError(fields.path, "doc_to_choice", "given for output_type multiple_choice", "nothing");
  const isMutual = metrics.some(({ metric }) => metric === "acc_mutual_info");
  return (document, context) => {
    const choices = fields.choices(document, field);
    const target = fields.target(document, task.doc_to_target);
    const gold = [target].flat().map((each) => (typeof each === "number" ? each : choices.indexOf(each)));
    const expected = gold.map((index) => choices[index] ?? "").join(" | ");
    return {
      context,
      expected,
      run: async (model, signal) => {
        const texts = choices.map((choice) => `${delimiter}${choice}`);
        const scores = await likelihoods(model, context, texts, signal);
        const alone = isMutual ? await likelihoods(model, "", texts, signal) : undefined;
        const logprobs = scores.map(({ logprob }) => logprob);
        const best = highest(logprobs);
        const right = rightness(choices, scores, alone, gold);
        const values = Object.fromEntries(metrics.map(({ metric }) => [`${metric},none`, Number(right(metric))]));
        const first = values[`${metrics[0]!.metric},none`]!;
        const numPromptTokens = scores.reduce((sum, { numTokens }) => sum + numTokens, 0);
        return {
          answer: choices[best] ?? "",
          score: first,
          exact: first === 1,
          metrics: values,
          logprobs,
          numPromptTokens,
          ...TIMELESS,
        };
      },
    };
  };
}

type Scored = LogLikelihood & { readonly numTokens: number };

/** Runs one request after another, so that an item has a single request in progress. */
async function likelihoods(
  model: TextModel,
  context: string,
  continuations: readonly string[],
  signal: AbortSignal,
): Promise<Scored[]> {
  const scores: Scored[] = [];
  for (const continuation of continuations) {
    scores.push(await logLikelihood(model, { context, continuation }, signal));
  }
  return scores;
}

/** Whether the item is right by a metric. */
function rightness(
  choices: readonly string[],
  scores: readonly Scored[],
  alone: readonly Scored[] | undefined,
  gold: readonly number[],
) {
  const isBest = (of: (score: Scored, index: number) => number): boolean => gold.includes(highest(scores.map(of)));
  return (metric: Metric["metric"]): boolean => {
    switch (metric) {
      case "acc_norm":
        return isBest(({ logprob }, index) => logprob / [...choices[index]!].length);
      case "acc_bytes":
        return isBest(({ logprob }, index) => logprob / Buffer.byteLength(choices[index]!));
      case "acc_mutual_info":
        return isBest(({ logprob }, index) => logprob - (alone?.[index]?.logprob ?? 0));
      case "exact_match":
        return gold.some((index) => scores[index]?.isGreedy === true);
      default:
        return isBest(({ logprob }) => logprob);
    }
  };
}

/** The index of the largest number, the first of equal ones. */
const highest = (numbers: readonly number[]): number =>
  numbers.reduce((best, number, index) => (number > numbers[best]! ? index : best), 0);

function likelihoodItems(task: TaskFile, fields: FieldReader, metrics: readonly Metric[]): MakeItem {
  return (document, context) => {
    const continuation = fields.target(document, task.doc_to_target);
    if (typeof continuation !== "string") {
      throw taskError(
        fields.path,
        "doc_to_target",
        "a text for output_type loglikelihood",
        JSON.stringify(continuation),
      );
    }
    return {
      context,
      expected: continuation,
      run: async (model, signal) => {
        const { logprob, isGreedy, numTokens } = await logLikelihood(model, { context, continuation }, signal);
        const values = Object.fromEntries(
          metrics.map(({ metric }) => [`${metric},none`, metric === "acc" ? Number(isGreedy) : logprob]),
        );
        const about = { numPromptTokens: numTokens, ...TIMELESS };
        return { answer: "", score: Number(isGreedy), exact: isGreedy, metrics: values, logprobs: [logprob], ...about };
      },
    };
  };
}

function rollingItems(task: TaskFile, fields: FieldReader, metrics: readonly Metric[]): MakeItem {
  return (document, context) => {
    const text = fields.target(document, task.doc_to_target);
    if (typeof text !== "string" || text === "") {
      throw taskError(
        fields.path,
        "doc_to_target",
        "a text for output_type loglikelihood_rolling",
        JSON.stringify(text),
      );
    }
    const numWords = text.split(/\s+/).length;
    return {
      context,
      expected: text,
      run: async (model, signal) => {
        const { logprob, numTokens } = await rollingLogLikelihood(model, text, signal);
        const weighted = (metric: Metric["metric"]): MetricValue => [
          logprob,
          metric === "word_perplexity" ? numWords : Buffer.byteLength(text),
        ];
        const values = Object.fromEntries(metrics.map(({ metric }) => [`${metric},none`, weighted(metric)]));
        const about = { numPromptTokens: numTokens, ...TIMELESS };
        return { answer: "", score: 0, exact: false, metrics: values, logprobs: [logprob], ...about };
      },
    };
  };
}

/** The harness's default. */
const USUAL_MAX_TOKENS = 256;

function continuationOf({ generation_kwargs: given, fewshot_delimiter: delimiter }: TaskFile): Continuation {
  const until = given?.until === undefined ? [delimiter] : [given.until ?? []].flat();
  return {
    maxTokens: given?.max_tokens ?? given?.max_gen_toks ?? USUAL_MAX_TOKENS,
    temperature: given?.temperature ?? 0,
    topP: given?.top_p ?? 1,
    stop: until.filter((text) => text !== ""),
  };
}

function generatedItems(task: TaskFile, fields: FieldReader, metrics: readonly Metric[]): MakeItem {
  const how = continuationOf(task);
  const { filters, comparisons } = parsedPatterns(task, metrics, fields.path);
  return (document, context) => {
    const gold = goldOf(fields.target(document, task.doc_to_target), document, task, fields);
    return {
      context,
      expected: gold.join(" | "),
      run: async (model, signal) => {
        const { text, ...about } = await generated(model, context, how, signal);
        const filtered = Object.fromEntries(filters.map(({ name, apply }) => [name, apply(text)]));
        const values: Record<string, number> = {};
        for (const [name, result] of Object.entries(filtered)) {
          for (const { metric, normalise } of comparisons) {
            const isRight = gold.some((each) => normalise(each) === normalise(result));
            values[`${metric},${name}`] = Number(isRight);
          }
        }
        const first = Object.values(values)[0]!;
        return { answer: text, score: first, exact: first === 1, metrics: values, filtered, ...about };
      },
    };
  };
}

function parsedPatterns(task: TaskFile, metrics: readonly Metric[], path: string) {
  const lists = task.filter_list ?? [{ name: "none", filter: [{ function: "take_first" as const }] }];
  try {
    return {
      filters: lists.map(({ name, filter }) => ({ name, apply: filterOf(filter) })),
      comparisons: metrics.map((metric) => ({ metric: metric.metric, normalise: normaliser(metric) })),
    };
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    throw taskError(path, "a regular expression", "one that JavaScript has too", thrown.message);
  }
}

/** The right answers. */
function goldOf(target: Target, document: Document, { doc_to_choice: field }: TaskFile, fields: FieldReader): string[] {
  if (field == null) return [target].flat().map(String);
  const choices = fields.choices(document, field);
  return [target].flat().map((each) => {
    const choice = typeof each === "number" ? choices[each] : undefined;
    if (choice !== undefined) return choice;
    throw taskError(fields.path, "doc_to_target", "the index of a choice", JSON.stringify(each));
  });
}
