/** Shortenings by rules: form, repetitions, and examples, passages and tools that the answers may not need. */
import { groupsOf, isSystem, sharedMessages } from "../groups.js";
import type { PromptRequest } from "../requests.js";
import { mapProse, minified, withoutBlanks, withTexts } from "../text-mends.js";
import { type Candidate, sharedBy } from "./candidate.js";
import { isObligation, lastLineStart } from "./prose.js";
import { withoutRepeats } from "./repeats.js";

const rule = (name: string, group: string, mend: (request: PromptRequest) => PromptRequest): Candidate => ({
  name,
  method: "rules",
  group,
  apply: async (requests) => requests.map(mend),
});

/** Changes of form that keep every statement. */
export const formCandidates = (): Candidate[] => [
  rule("white space", "white space", (request) =>
    withTexts(request, ({ content }) => mapProse(content, withoutBlanks)),
  ),
  rule("JSON on one line", "JSON", (request) =>
    withTexts(request, ({ content }) => mapProse(content, minified, "json")),
  ),
  rule("repetitions", "repetitions", withoutRepeats),
];

/** Parts that the answers may not need: shared examples, passages, and tools. */
export const contentCandidates = (requests: readonly PromptRequest[]): Candidate[] => [
  ...exampleCandidates(requests),
  ...passageCandidates(requests),
  ...toolCandidates(requests),
];

/**
 * Question-and-answer pairs at the beginning of all requests of an application: maps each request to its number of
 * examples.
 */
function examplesOf(requests: readonly PromptRequest[]): Map<PromptRequest, number> {
  const counts = new Map<PromptRequest, number>();
  for (const group of groupsOf(requests)) {
    if (group.length < 3) continue;
    const numExamples = Math.floor((sharedMessages(group) - numSystemOf(group[0]!)) / 2);
    if (numExamples > 0) for (const request of group) counts.set(request, numExamples);
  }
  return counts;
}

const numSystemOf = ({ messages }: PromptRequest): number =>
  Math.max(
    0,
    messages.findIndex(({ role }) => !isSystem(role)),
  );

/** From zero examples on, doubling each time. */
function exampleCandidates(requests: readonly PromptRequest[]): Candidate[] {
  const most = [...examplesOf(requests).values()].reduce((max, count) => Math.max(max, count), 0);
  const counts: number[] = [];
  for (let kept = 0; kept < most; kept = Math.max(1, 2 * kept)) counts.push(kept);
  return counts.map((kept) => ({
    name: `examples, ${kept} of ${most}`,
    method: "rules",
    group: "examples",
    apply: async (current) => {
      const examples = examplesOf(current);
      return current.map((request) => {
        const count = examples.get(request) ?? 0;
        if (count <= kept) return request;
        const from = numSystemOf(request);
        const messages = request.messages.filter((_, at) => at < from + 2 * kept || at >= from + 2 * count);
        return { ...request, messages };
      });
    },
  }));
}

/** Most passages to try, the longest first; each costs an evaluation. */
const MAX_PASSAGES = 8;
const LEAST_CHARACTERS = 40;

/**
 * Lines that many requests share, each removed in turn. Lines that oblige or forbid stay, since checks may not cover
 * their purpose.
 */
function passageCandidates(requests: readonly PromptRequest[]): Candidate[] {
  const shared = sharedBy(requests, ({ messages }) =>
    messages.flatMap(({ role, content }, at) => {
      const text = at === messages.length - 1 ? content.slice(0, lastLineStart(content)) : content;
      return role === "assistant" ? [] : text.split("\n").map((line) => line.trim());
    }),
  );
  return [...shared]
    .filter(([line]) => line.length >= LEAST_CHARACTERS && !isObligation(line))
    .sort(([a, countA], [b, countB]) => countB * b.length - countA * a.length)
    .slice(0, MAX_PASSAGES)
    .map(([line]) =>
      rule(`passage "${line.slice(0, 40)}…"`, `passage ${line}`, (request) => withoutLine(request, line)),
    );
}

function withoutLine(request: PromptRequest, line: string): PromptRequest {
  const last = request.messages.length - 1;
  return withTexts(request, ({ role, content }, at) => {
    if (role === "assistant") return content;
    const end = at === last ? lastLineStart(content) : content.length;
    const head = content.slice(0, end).split("\n");
    const kept = head.filter((each) => each.trim() !== line);
    if (kept.length === head.length) return content;
    const shorter = kept.join("\n") + content.slice(end);
    return shorter.trim() === "" ? content : shorter.replace(/^\n+/, "").trimEnd();
  });
}

/** Tools that no answer calls or names. */
function toolCandidates(requests: readonly PromptRequest[]): Candidate[] {
  const offered = new Set(requests.flatMap(({ tools }) => tools.map(({ name }) => name)));
  const called = new Set(requests.flatMap(({ calledTools }) => calledTools));
  const answers = requests.map(({ answer = "" }) => answer).join("\n");
  const unused = new Set([...offered].filter((name) => !called.has(name) && !answers.includes(name)));
  if (unused.size === 0) return [];
  const mend = (request: PromptRequest): PromptRequest => {
    const tools = request.tools.filter(({ name }) => !unused.has(name));
    return tools.length === request.tools.length ? request : { ...request, tools };
  };
  return [rule(`tools, ${offered.size - unused.size} of ${offered.size}`, "tools", mend)];
}
