/**
 * Describes each mistake in a configuration file: its place, the expected value, the given value and the remedy.
 * Secrets
 * are never shown.
 */
import { type Document, isMap, isScalar, isSeq, type LineCounter, type Node } from "yaml";
import type { z } from "zod";
import type { ErrorCode } from "../../core/errors.js";
import { expectedAt, formatPath, type KeyPath, keysAt, nearestKey, schemaAt, sectionWith } from "./key-paths.js";
import { mayHoldSecret } from "./secret-places.js";

export interface ConfigProblem {
  readonly code: Extract<
    ErrorCode,
    "config_syntax" | "config_unknown_key" | "config_value" | "config_conflict" | "config_secret" | "file_unreadable"
  >;
  readonly line: number;
  readonly column: number;
  /** Path of the key, such as models[0].instances; empty for the whole file. */
  readonly path: string;
  readonly message: string;
  readonly hint: string;
}

/** A problem whose line and column are not known yet. */
export type Finding = Omit<ConfigProblem, "line" | "column" | "path"> & { readonly path: KeyPath };

/** The parsed file with its line numbers. */
export interface ConfigSource {
  readonly document: Document.Parsed;
  readonly lines: LineCounter;
}

type Issue = z.core.$ZodIssue;

const SHOWN_LENGTH = 60;

function shown(value: unknown, path: KeyPath): string {
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "a mapping";
  // Secrets also hide in values of the wrong type, such as a key in place of the list of keys.
  if (mayHoldSecret(path)) return "another value";
  // A URL may carry a password.
  const text = (JSON.stringify(value) ?? String(value)).replace(/\/\/[^/@\s"]*@/g, "//…@");
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
}

function valueAt(root: unknown, path: KeyPath): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === "object" && value !== null && Object.hasOwn(value, key)
        ? (value as Record<string | number, unknown>)[key]
        : undefined,
    root,
  );
}

const argsHint = (key: string): string =>
  `write args: [--${key.slice(0, SHOWN_LENGTH)}, …] for a flag of the engine's own; `;

function unknownKey(path: KeyPath, key: string): Finding {
  const known = keysAt(path);
  const meant = nearestKey(key, known);
  const elsewhere = sectionWith(key);
  const hint =
    meant !== undefined
      ? `write ${meant}`
      : elsewhere !== undefined
        ? `it belongs under ${elsewhere}`
        : `${path.at(-1) === "options" ? argsHint(key) : ""}known here: ${known.join(", ")}`;
  const where = path.length === 0 ? "" : ` in ${formatPath(path)}`;
  const message = `expected only known keys${where}, got ${JSON.stringify(key.slice(0, SHOWN_LENGTH))}`;
  return { code: "config_unknown_key", path: [...path, key], message, hint };
}

const variableOf = (issue: Issue): unknown => (issue.code === "custom" ? issue.params?.variable : undefined);

/**
 * For a value that may have several forms, the problems of the intended form: the form whose mistakes lie inside the
 * value, or the name of a variable.
 */
function insideUnion(issue: Issue): readonly Issue[] {
  if (issue.code !== "invalid_union") return [];
  const tried = issue.errors.find((errors) =>
    errors.every(
      (each) => each.path.length > 0 || each.code === "unrecognized_keys" || variableOf(each as Issue) !== undefined,
    ),
  );
  return (tried ?? []).map((each) => ({ ...each, path: [...issue.path, ...each.path] }) as Issue);
}

/** @param root the content of the file, before validation */
export function findingsOf(issue: Issue, root: unknown): readonly Finding[] {
  const path = issue.path.map((key) => (typeof key === "symbol" ? String(key) : key));
  const inner = insideUnion(issue);
  if (inner.length > 0) return inner.flatMap((each) => findingsOf(each, root));
  if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unknownKey(path, key));
  if (variableOf(issue) !== undefined) {
    const variable = String(variableOf(issue));
    const message = `expected the environment variable ${JSON.stringify(variable)} for ${formatPath(path)} to hold a key without spaces, got none or one with spaces`;
    return [{ code: "config_secret", path, message, hint: `set ${variable} before starting millrace` }];
  }
  const value = valueAt(root, path);
  if (issue.code === "too_small" && Array.isArray(value)) {
    const message = `expected at least ${issue.minimum} in ${formatPath(path)}, got ${value.length === 0 ? "an empty list" : value.length}`;
    return [{ code: "config_value", path, message, hint: hintFor(path, value) }];
  }
  const subject = path.length === 0 ? "the file" : formatPath(path);
  const message = `expected ${subject} to be ${expectedAt(path)}, got ${shown(value, path)}`;
  return [{ code: "config_value", path, message, hint: hintFor(path, value) }];
}

function hintFor(path: KeyPath, value: unknown): string {
  const { type, description } = schemaAt(path) ?? {};
  if (type === "string" && typeof value === "number") return "put the value in quotes, with its unit where it has one";
  if (value === undefined && path.length > 0)
    return `add ${String(path.at(-1))}${description === undefined ? "" : `: ${description}`}`;
  return description === undefined ? "see millrace config schema" : `it means: ${description}`;
}

/** The node at a path, or its deepest existing ancestor; for an unknown key, the key itself. */
function nodeAt(root: Node | null, path: KeyPath): Node | null {
  let node = root;
  for (const [depth, key] of path.entries()) {
    if (isSeq(node)) {
      const item = node.items[Number(key)] as Node | undefined;
      if (item === undefined) return node;
      node = item;
    } else if (isMap(node)) {
      const pair = node.items.find(({ key: each }) => String(isScalar(each) ? each.value : each) === String(key));
      if (pair === undefined) return node;
      const isLast = depth === path.length - 1;
      node = (isLast || pair.value === null ? pair.key : pair.value) as Node;
    } else return node;
  }
  return node;
}

export function placed(finding: Finding, { document, lines }: ConfigSource): ConfigProblem {
  const offset = nodeAt(document.contents, finding.path)?.range?.[0] ?? 0;
  const { line, col } = lines.linePos(offset);
  return { ...finding, path: formatPath(finding.path), line: Math.max(1, line), column: Math.max(1, col) };
}
