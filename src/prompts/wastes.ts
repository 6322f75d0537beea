/**
 * Kinds of waste in prompts. Each is a mend: it changes requests as their application could, and describes its finding.
 * The saving is the cost that the mended requests avoid (simulate.ts).
 */

import { groupsOf, isSystem, sharedMessages } from "./groups.js";
import type { PromptRequest } from "./requests.js";
import type { Encode } from "./simulate.js";
import { compactJson, mapProse, minified, withoutBlanks, withTexts } from "./text-mends.js";
import { isVolatile } from "./volatile.js";

/**
 * What the model sees changed: the place of words, their form, or their content; only an evaluation can judge changed
 * content.
 */
export type Change = "place" | "form" | "content" | "limits";

interface Mended {
  /** As many requests as before, in order; untouched requests are the same objects. */
  readonly requests: readonly PromptRequest[];
  /** The finding in one sentence. */
  readonly because: string;
}

interface Waste {
  readonly name: string;
  readonly changes: Change;
  /** The change to make in the application. */
  readonly advice: string;
  /** undefined: the requests lack this waste */
  find(requests: readonly PromptRequest[], encode: Encode): Mended | undefined;
}

const percent = (part: number, all: number): string => `${Math.round((100 * part) / Math.max(1, all))} %`;

/** Applies `mend` to each request; undefined if no request changes. */
function eachMended(
  requests: readonly PromptRequest[],
  mend: (request: PromptRequest) => PromptRequest,
  because: (numChanged: number) => string,
): Mended | undefined {
  const mended = requests.map(mend);
  const numChanged = mended.filter((request, index) => request !== requests[index]).length;
  return numChanged === 0 ? undefined : { requests: mended, because: because(numChanged) };
}

/** Moves lines of the system prompt that differ within a group only in volatile parts to the last message. */
function earlyVolatile(requests: readonly PromptRequest[]): Mended | undefined {
  const moved = new Map<PromptRequest, PromptRequest>();
  const examples: string[] = [];
  for (const group of groupsOf(requests)) {
    const systems = new Set(group.map(({ messages }) => messages.find(({ role }) => isSystem(role))?.content ?? ""));
    if (systems.size < 2) continue;
    const linesOf = (request: PromptRequest) =>
      (request.messages.find(({ role }) => isSystem(role))?.content ?? "").split("\n");
    const first = linesOf(group[0]!);
    const isChanging = first.map(
      (line, index) => isVolatile(line) && group.some((other) => linesOf(other)[index] !== line),
    );
    const example = first[isChanging.indexOf(true)];
    if (example === undefined) continue;
    examples.push(example.trim());
    for (const request of group) moved.set(request, withLinesLast(request, isChanging));
  }
  return eachMended(
    requests,
    (request) => moved.get(request) ?? request,
    (count) => `${percent(count, requests.length)} of the requests differ early: "${examples[0]!.slice(0, 80)}"`,
  );
}

function withLinesLast(request: PromptRequest, isMoved: readonly boolean[]): PromptRequest {
  const system = request.messages.findIndex(({ role }) => isSystem(role));
  const last = request.messages.length - 1;
  if (system === last || [system, last].some((index) => request.messages[index]!.isFixed)) return request;
  const lines = request.messages[system]!.content.split("\n");
  const moved = lines.filter((_, index) => isMoved[index]).join("\n");
  const kept = lines.filter((_, index) => !isMoved[index]).join("\n");
  return withTexts(request, ({ content }, index) =>
    index === system ? kept : index === last ? `${moved}\n${content}` : content,
  );
}

function shuffledTools(requests: readonly PromptRequest[]): Mended | undefined {
  const orders = new Map<string, Set<string>>();
  const namesOf = ({ tools }: PromptRequest) => tools.map(({ name }) => name);
  for (const request of requests) {
    const names = namesOf(request);
    const set = JSON.stringify([...names].sort());
    orders.set(set, (orders.get(set) ?? new Set()).add(JSON.stringify(names)));
  }
  return eachMended(
    requests,
    (request) => {
      const names = JSON.stringify([...namesOf(request)].sort());
      if ((orders.get(names)?.size ?? 0) < 2) return request;
      const tools = [...request.tools].sort((a, b) => (a.name < b.name ? -1 : 1));
      return tools.every((tool, index) => tool === request.tools[index]) ? request : { ...request, tools };
    },
    () => `the same tools come in ${[...orders.values()].reduce((most, { size }) => Math.max(most, size), 0)} orders`,
  );
}

/** Least requests of an application before its tools count as unused. */
const ENOUGH_REQUESTS = 20;

function unusedTools(requests: readonly PromptRequest[]): Mended | undefined {
  const unused = new Map<PromptRequest, ReadonlySet<string>>();
  const names = new Set<string>();
  for (const group of groupsOf(requests)) {
    const called = new Set(group.flatMap(({ calledTools }) => calledTools));
    const numAnswers = group.filter(({ answer, isCall }) => answer !== undefined || isCall).length;
    if (numAnswers < ENOUGH_REQUESTS) continue;
    const never = new Set(group[0]!.tools.map(({ name }) => name).filter((name) => !called.has(name)));
    for (const name of never) names.add(name);
    for (const request of group) unused.set(request, never);
  }
  return eachMended(
    requests,
    (request) => {
      const tools = request.tools.filter(({ name }) => unused.get(request)?.has(name) !== true);
      return tools.length === request.tools.length ? request : { ...request, tools };
    },
    () =>
      `${names.size} tools are never called: ${[...names].slice(0, 5).join(", ")}${requests.some(({ calledTools }) => calledTools.length > 0) ? "" : " (no answer of the file has a call: check that calls were recorded)"}`,
  );
}

/** Shorter passages may be repeated on purpose. */
const PASSAGE_CHARACTERS = 200;

function repeatedPassages(requests: readonly PromptRequest[]): Mended | undefined {
  return eachMended(
    requests,
    (request) => {
      const seen = new Set<string>();
      return withTexts(request, ({ content }) => {
        const passages = content.split(/\n{2,}/);
        const kept = passages.filter((passage) => {
          const isRepeated = passage.length >= PASSAGE_CHARACTERS && seen.has(passage);
          seen.add(passage);
          return !isRepeated;
        });
        return kept.length === passages.length ? content : kept.join("\n\n");
      });
    },
    (count) => `${percent(count, requests.length)} of the requests have a passage twice`,
  );
}

function whitespace(requests: readonly PromptRequest[]): Mended | undefined {
  return eachMended(
    requests,
    (request) => withTexts(request, ({ content }) => mapProse(content, withoutBlanks)),
    (count) => `${percent(count, requests.length)} of the requests have runs of spaces or empty lines`,
  );
}

function indentedJson(requests: readonly PromptRequest[]): Mended | undefined {
  return eachMended(
    requests,
    (request) => withTexts(request, ({ content }) => mapProse(content, minified, "json")),
    (count) => `${percent(count, requests.length)} of the requests have JSON over several lines`,
  );
}

/** Number of examples that need no proof of their worth. */
const KEPT_EXAMPLES = 3;

/**
 * Examples are pairs of messages that are the same in every request of a group, before the first message that differs.
 */
function fewShots(requests: readonly PromptRequest[]): Mended | undefined {
  const shorter = new Map<PromptRequest, PromptRequest>();
  let most = 0;
  for (const group of groupsOf(requests)) {
    if (group.length < ENOUGH_REQUESTS) continue;
    const shared = sharedMessages(group);
    const numSystem = group[0]!.messages.findIndex(({ role }) => !isSystem(role));
    const numExamples = Math.floor((shared - numSystem) / 2);
    if (numSystem < 0 || numExamples <= KEPT_EXAMPLES) continue;
    most = Math.max(most, numExamples);
    const [from, to] = [numSystem + 2 * KEPT_EXAMPLES, numSystem + 2 * numExamples];
    for (const request of group) {
      shorter.set(request, {
        ...request,
        messages: request.messages.filter((_, index) => index < from || index >= to),
      });
    }
  }
  return eachMended(
    requests,
    (request) => shorter.get(request) ?? request,
    (count) => `${percent(count, requests.length)} of the requests begin with up to ${most} examples`,
  );
}

const LEAST_ANSWERS = 20;
/** A limit of this many times the 99th percentile never cuts an answer, and so protects nothing. */
const OVERSIZED = 4;
const HEADROOM = 1.5;

/** The length of a call without reported usage is unknown. */
const isShort = ({ isCall }: PromptRequest, length: number | undefined, limit: number): boolean =>
  length === undefined ? !isCall : length <= limit;

/** Handles each application's limits separately; a request whose own answer exceeds the new limit keeps its own. */
function limits(requests: readonly PromptRequest[], encode: Encode): Mended | undefined {
  const lengthOf = ({ outputTokens, answer, isCall }: PromptRequest): number | undefined =>
    outputTokens ?? (answer === undefined || isCall ? undefined : encode(answer).length);
  const mended = new Map<PromptRequest, PromptRequest>();
  const found: string[] = [];
  for (const group of groupsOf(requests)) {
    const lengths = group.flatMap((request) => lengthOf(request) ?? []).sort((a, b) => a - b);
    if (lengths.length < LEAST_ANSWERS) continue;
    const p99 = lengths[Math.min(lengths.length - 1, Math.floor(0.99 * lengths.length))]!;
    const limit = Math.max(16, Math.ceil((HEADROOM * p99) / 16) * 16);
    const wide = group.filter(
      ({ maxTokens = Number.POSITIVE_INFINITY }) => maxTokens > Math.max(limit, OVERSIZED * p99),
    );
    const safe = wide.filter((request) => isShort(request, lengthOf(request), limit));
    for (const request of safe) mended.set(request, { ...request, maxTokens: limit });
    if (safe.length > 0) found.push(`${limit} would do (p99: ${p99})`);
  }
  return eachMended(
    requests,
    (request) => mended.get(request) ?? request,
    (count) =>
      `${percent(count, requests.length)} of the requests have no max_tokens, or one above ${OVERSIZED} times the 99th percentile of the answers; ${found[0]}`,
  );
}

/**
 * Most characters of words around a JSON object, such as "Sure! Here is the JSON:", with which it is still the answer.
 */
const LONGEST_PHRASE = 60;

/** The JSON object in an answer with words around it; undefined: there is none, or it is a detail of a long answer. */
function objectWithin(answer: string): string | undefined {
  const start = answer.indexOf("{");
  const end = answer.lastIndexOf("}");
  const around = answer.trim().length - (end + 1 - start);
  if (start < 0 || around > Math.max(LONGEST_PHRASE, 3 * (end + 1 - start))) return undefined;
  return compactJson(answer.slice(start, end + 1));
}

function looseAnswers(requests: readonly PromptRequest[], encode: Encode): Mended | undefined {
  return eachMended(
    requests,
    (request) => {
      const { answer, hasFormat } = request;
      const json = hasFormat || answer === undefined ? undefined : objectWithin(answer);
      if (json === undefined || json.length >= answer!.length) return request;
      const before = request.outputTokens ?? encode(answer!).length;
      const share = encode(json).length / Math.max(1, encode(answer!).length);
      return { ...request, answer: json, hasFormat: true, outputTokens: Math.round(before * share) };
    },
    (count) =>
      `${percent(count, requests.length)} of the answers are JSON with words or spaces around it, without response_format`,
  );
}

/** In the order in which an application would mend them: smallest change first. */
export const WASTES: readonly Waste[] = [
  {
    name: "early differences",
    changes: "place",
    advice: "move dates, times and identifiers from the system prompt to the last message",
    find: earlyVolatile,
  },
  { name: "shuffled tools", changes: "place", advice: "list tools in one order", find: shuffledTools },
  { name: "indented JSON", changes: "form", advice: "write JSON without spaces", find: indentedJson },
  {
    name: "whitespace",
    changes: "form",
    advice: "drop trailing and repeated spaces and empty lines",
    find: whitespace,
  },
  { name: "limits", changes: "limits", advice: "set max_tokens by what answers need", find: limits },
  {
    name: "loose answers",
    changes: "form",
    advice: "ask for JSON by response_format: json_object, or better your json_schema",
    find: looseAnswers,
  },
  { name: "repeated passages", changes: "content", advice: "give a passage once", find: repeatedPassages },
  { name: "unused tools", changes: "content", advice: "offer only tools that are called", find: unusedTools },
  { name: "many examples", changes: "content", advice: `keep ${KEPT_EXAMPLES} examples, and evaluate`, find: fewShots },
];
