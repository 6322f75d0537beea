/**
 * The two parts of a request that the semantic cache compares: the last user text, and the namespace, which is
 * everything else.
 */
import { type CacheScope, canonicalBody, sha256 } from "../cache/answer-key.js";
import { ineligible } from "../cache/eligibility.js";
import { spellingsOf } from "../cache/number-spellings.js";
import type { GatewayRequest, RequestBody } from "../request.js";
import { MAX_QUESTION_LENGTH, type Question, questionOf } from "./text/question.js";
import { VARIED, VOLATILE } from "./words/english.js";

/** Raised when vetoes or the namespace change: judgements and answers of other rules do not count. */
export const RULES_VERSION = 1;

export interface Subject {
  readonly question: Question;
  /** Hash of everything but the question: only requests of one namespace may share an answer. */
  readonly namespace: string;
  /** Questions of one class share a learned threshold. */
  readonly promptClass: string;
}

export interface SubjectTerms {
  readonly scope: CacheScope;
  /** The model that the request's name stands for, and the version of its weights, engine and settings. */
  readonly model: string;
  readonly version: string;
  /** The model that makes the vectors, and the version of its weights. */
  readonly embedder: string;
  /** Whether questions after earlier turns are compared too, if these turns are equal. */
  readonly isMultiTurn: boolean;
}

type Message = Readonly<Record<string, unknown>>;

const RESPONSES = "/v1/responses";
const PATHS: readonly string[] = ["/v1/chat/completions", "/v1/messages", RESPONSES];
/** Fields that ask for the tokens of one particular answer, or for several answers. */
const PER_ANSWER: readonly string[] = [
  "logprobs",
  "top_logprobs",
  "prompt_logprobs",
  "echo",
  "return_token_ids",
  "audio",
];

/** @returns undefined: the request's answer may not serve another question */
export function subjectOf(request: GatewayRequest, terms: SubjectTerms): Subject | undefined {
  const { path, url, body, bytes, route, model } = request;
  if (!PATHS.includes(path) || !isPlain(body)) return undefined;
  const said = path === RESPONSES ? "input" : "messages";
  const last = lastText(body[said], path === RESPONSES, terms.isMultiTurn);
  if (last === undefined || last.text.length > MAX_QUESTION_LENGTH || last.text.trim() === "") return undefined;
  const canonical = canonicalBody({ path, body, bytes, model });
  if (canonical === undefined) return undefined;
  // Sampled answers are allowed: a semantic hit is never an exact copy.
  const rules = { isOwnEngine: false, assumesDeterministic: true, keepsSampled: true };
  if (ineligible({ route, path, body }, rules, canonical.kept) !== undefined) return undefined;
  const question = questionOf(last.text);
  if (question.form.parts.length === 0 || isForTheMoment(question)) return undefined;
  const others = { ...body, [said]: last.others };
  const rest = canonicalBody({ path, body: others, bytes: Buffer.from(JSON.stringify(others)), model });
  if (rest === undefined) return undefined;
  const { scope, version, embedder } = terms;
  const headers = ["anthropic-beta", "anthropic-version", "openai-beta"].map((name) => request.headers[name] ?? null);
  const place = [scope.kind, scope.name, scope.credentials, url, terms.model, version, embedder];
  const facts = [RULES_VERSION, ...place, headers, spellingsOf(body, bytes)];
  return {
    question,
    namespace: sha256(`${JSON.stringify(facts)}\n${rest.kept}`),
    promptClass: `${question.form.kind.slice(0, 16)} ${question.language ?? question.scripts.join("+")}`,
  };
}

const RESPONSE_LOGPROBS = "message.output_text.logprobs";

function isPlain(body: RequestBody): boolean {
  if (Array.isArray(body.include) && body.include.includes(RESPONSE_LOGPROBS)) return false;
  if (PER_ANSWER.some((name) => body[name] !== undefined && body[name] !== null && body[name] !== false)) return false;
  return (body.n ?? 1) === 1 && (body.best_of ?? 1) === 1;
}

/** Whether the answer is for the moment only, such as today's weather, or another joke. */
function isForTheMoment({ tokens }: Question): boolean {
  return tokens.some(({ kind, lower }) => kind === "word" && (VOLATILE.has(lower) || VARIED.has(lower)));
}

interface LastText {
  readonly text: string;
  /** The messages with an empty text in the place of the last one. */
  readonly others: unknown;
}

/** @param isInput for a response: a text alone, or items, of which messages are one kind */
function lastText(said: unknown, isInput: boolean, isMultiTurn: boolean): LastText | undefined {
  if (isInput && typeof said === "string") return { text: said, others: "" };
  if (!Array.isArray(said)) return undefined;
  const last = said.at(-1) as Message | null | undefined;
  if (last?.role !== "user" || !isMessage(last)) return undefined;
  const isInstruction = (message: Message | null) =>
    (message?.role === "system" || message?.role === "developer") && isMessage(message);
  const earlier = said.slice(0, -1);
  if (!isMultiTurn && !earlier.every(isInstruction)) return undefined;
  const before = earlier.map(withoutId);
  const { content } = last;
  const rest = withoutId(last) as Message;
  if (typeof content === "string") return { text: content, others: before.concat([{ ...rest, content: "" }]) };
  if (!Array.isArray(content) || content.length !== 1) return undefined;
  const part = content[0] as Message | null;
  if (part?.type !== (isInput ? "input_text" : "text") || typeof part.text !== "string") return undefined;
  return { text: part.text, others: before.concat([{ ...rest, content: [{ ...part, text: "" }] }]) };
}

/** Messages need no type; other items of a response's input may have a role, too. */
const isMessage = ({ type }: Message): boolean => type === undefined || type === null || type === "message";

/**
 * The message without its id, which is in no prompt and differs in each answer. Other items may be known by their ids.
 */
function withoutId(message: Message | null): unknown {
  if (typeof message !== "object" || message === null || message.type !== "message") return message;
  const { id: _, ...rest } = message;
  return rest;
}
