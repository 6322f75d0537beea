/**
 * An answer's key: a hash over everything that determines the answer's bytes. Two requests share an answer if and only
 * if they have the same key.
 *
 * The key is made of the request's fields and not of the prompt's token ids: template and tokenizer are functions of
 * the fields and of the model's version, so equal fields mean equal ids, and the gateway needs no tokenizer.
 */

import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { shapeOf } from "../../core/json-body.js";
import { quoted } from "../../core/quoted-text.js";
import { POOLING_PATHS } from "../api/routes.js";
import type { GatewayRequest } from "../request.js";
import { PRIORITY_HEADER, TIMEOUT_HEADER } from "../routes/terms-policy.js";
import { canonicalJson } from "./canonical-json.js";
import { spellingsOf } from "./number-spellings.js";

/** Changes with the meaning of keys and the form of kept answers, so that no answer of an earlier release is found. */
const KEY_VERSION = 2;

/** Fields of a request's urgency: they decide whether and when an answer comes, never its text. */
const TERMS = ["priority", "timeout"] as const;

/**
 * Fields of a provider's bookkeeping about the sender: answers of these paths neither depend on them nor repeat them.
 */
const BOOKKEEPING = [
  "user",
  "metadata",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
] as const;

/**
 * Fields that are left out of the key, by path. Every other field is in the key, so that an unknown field never makes
 * two requests equal. Some are in it for another reason than the answer's text:
 * - `stream`, `stream_options`: the form of the bytes;
 * - `cache_salt`: a client that sets it wants to share nothing with other salts, not even the time of an answer;
 * - all of /v1/responses: its answers repeat `metadata` and others.
 */
const LEFT_OUT: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["/v1/chat/completions", new Set<string>([...TERMS, ...BOOKKEEPING])],
  ["/v1/completions", new Set<string>([...TERMS, ...BOOKKEEPING])],
  ["/v1/responses", new Set<string>(TERMS)],
  ["/v1/messages", new Set<string>([...TERMS, "metadata"])],
  ...["/v1/embeddings", ...POOLING_PATHS].map((path): [string, ReadonlySet<string>] => [
    path,
    new Set<string>([...TERMS, "user"]),
  ]),
]);

/** The paths whose answers can be kept. */
export const CACHEABLE_PATHS: readonly string[] = [...LEFT_OUT.keys()];

/** Headers that change upstreams' answers. */
const ANSWER_HEADERS = ["anthropic-beta", "anthropic-version", "openai-beta", "openai-organization", "openai-project"];

/** The tenants and keys whose answers a request may get. */
export interface CacheScope {
  readonly kind: "tenant" | "shared";
  readonly name: string;
  /** Hash of the client's credentials if the upstream, not the gateway, checks them; else "". */
  readonly credentials: string;
}

export interface KeyParts {
  readonly scope: CacheScope;
  /** The model that the request's name stands for. */
  readonly model: string;
  /** Version of the model's weights, engine and settings. */
  readonly version: string;
  /** Names of further headers that change answers, in lower case. */
  readonly headers: readonly string[];
}

export interface AnswerKey {
  /** 64 hexadecimal digits. */
  readonly id: string;
  /**
   * Key under which running requests are joined. It includes their terms, since the leader's time limit ends the answer
   * of all.
   */
  readonly flight: string;
}

/** The parts of a request's body as canonical texts: equal parts have equal texts. */
interface CanonicalBody {
  /** The fields that are in the key. */
  readonly kept: string;
  /** The fields of the request's urgency. */
  readonly terms: string;
}

/**
 * @param model the name in place of the body's, if a route has chosen one; absent: the body's
 * @returns undefined if the fields lose a part of the bytes: rounded numbers, or a member that occurs twice
 */
export function canonicalBody({
  path,
  body,
  bytes,
  model,
}: Pick<GatewayRequest, "path" | "body" | "bytes"> & { readonly model?: string }) {
  const left = LEFT_OUT.get(path);
  if (left === undefined) return undefined;
  const names = Object.keys(body).sort();
  const kept: string[] = [];
  const terms: string[] = [];
  let numMarks = Math.max(names.length, 1) + names.length;
  for (const name of names) {
    // The model sees the order of members within a field: in tools, and in the schema that its answer follows.
    const value = canonicalJson(body[name], true);
    if (value.text === undefined) return undefined;
    numMarks += value.numMarks;
    const text = name === "model" && model !== undefined ? JSON.stringify(model) : value.text;
    const member = `${quoted(name)}:${text}`;
    if (!left.has(name)) kept.push(member);
    else if ((TERMS as readonly string[]).includes(name)) terms.push(member);
  }
  if (numMarks !== shapeOf(bytes).numMarks) return undefined;
  const spellings = spellingsOf(body, bytes);
  if (spellings !== "") kept.push(spellings);
  return { kept: kept.join(","), terms: terms.join(",") } satisfies CanonicalBody;
}

export function answerKey(
  { url, headers }: Pick<GatewayRequest, "url" | "headers">,
  body: CanonicalBody,
  { scope, model, version, headers: further }: KeyParts,
): AnswerKey {
  // Lists, so that no part can run into the next. Each part is quoted by itself, since most equal the previous
  // request's.
  let facts = `[${KEY_VERSION},"${scope.kind}",${quoted(scope.name)},${quoted(scope.credentials)},${quoted(url)}`;
  facts += `,${quoted(model)},${quoted(version)},[`;
  for (const [i, name] of further.entries()) facts += `${i === 0 ? "" : ","}${quoted(name)}`;
  facts += "],[";
  for (const name of ANSWER_HEADERS) facts += `${name === ANSWER_HEADERS[0] ? "" : ","}${quotedHeader(headers, name)}`;
  for (const name of further) facts += `,${quotedHeader(headers, name)}`;
  const id = sha256(`${facts}]]\n${body.kept}`);
  const terms = `[${quotedHeader(headers, PRIORITY_HEADER)},${quotedHeader(headers, TIMEOUT_HEADER)}]`;
  return { id, flight: `${id} ${body.terms} ${terms}` };
}

function quotedHeader(headers: IncomingHttpHeaders, name: string): string {
  const value = headerOf(headers, name);
  return value === null ? "null" : quoted(value);
}

/**
 * The caller's own scope.
 * @param hasOwnKeys whether the gateway checks clients' credentials; if not, their upstream does, and they are part of
 * the scope
 */
export function tenantScope({ caller, headers }: Pick<GatewayRequest, "caller" | "headers">, hasOwnKeys: boolean) {
  const credentials = hasOwnKeys ? "" : credentialsOf(headers);
  return { kind: "tenant", name: caller.tenant, credentials } satisfies CacheScope;
}

/** The client's credentials as the upstream would see them. */
export function credentialsOf(headers: IncomingHttpHeaders): string {
  const { authorization } = headers;
  const apiKey = headerOf(headers, "x-api-key");
  return authorization === undefined && apiKey === null ? "" : sha256(JSON.stringify([authorization ?? null, apiKey]));
}

function headerOf(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name];
  return value === undefined ? null : typeof value === "string" ? value : value.join(", ");
}

export function sha256(text: string): string {
  return hash("sha256", text, "hex");
}
