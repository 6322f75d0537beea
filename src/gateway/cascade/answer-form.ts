/** Whether an answer has the form that its request asks for. */
import { z } from "zod";
import type { JsonObject } from "../../core/json-body.js";
import { askedForm } from "../api/asked-form.js";

/** A client's schema is compiled for one answer, so it must be small. */
const MAX_SCHEMA_CHARACTERS = 64 * 1024;
/** Upper bound of a schema's parts (references followed) times the answer's characters: some tens of milliseconds. */
const MAX_COMPARISONS = 2_000_000;

/** The fault in an answer's form; undefined if it is right, or if the request asks for none. */
export function formProblem(body: JsonObject, text: string): string | undefined {
  const form = askedForm(body);
  if (form === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "no JSON";
  }
  return form.type === "json_object" || fits(form.schema, value, text.length) ? undefined : "not of the schema";
}

/**
 * A schema that cannot be checked here counts as fulfilled: the engine has constrained the answer, or the audit finds
 * the loss.
 */
function fits(schema: unknown, value: unknown, numCharacters: number): boolean {
  try {
    const text = JSON.stringify(schema);
    // A client's pattern could run for ever.
    if (text.length > MAX_SCHEMA_CHARACTERS || /"pattern(?:Properties)?":/.test(text)) return true;
    if (numParts(schema) * numCharacters > MAX_COMPARISONS) return true;
    return z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]).safeParse(value).success;
  } catch {
    return true;
  }
}

/**
 * Parts of a schema that one value may be compared with, including those behind references; infinite if a reference
 * leads back to itself.
 */
function numParts(schema: unknown): number {
  const known = new Map<object, number>();
  const count = (node: unknown): number => {
    if (typeof node !== "object" || node === null) return 0;
    const counted = known.get(node);
    if (counted !== undefined) return counted;
    known.set(node, Number.POSITIVE_INFINITY);
    // Definitions count only where a reference points to them.
    const parts = Object.entries(node).filter(([key]) => key !== "$defs" && key !== "definitions");
    const sum = parts.reduce((all, [key, child]) => all + count(key === "$ref" ? targetOf(schema, child) : child), 1);
    known.set(node, sum);
    return sum;
  };
  return count(schema);
}

/** @param reference a JSON pointer within the schema, such as "#/$defs/item"; the validator refuses all others */
function targetOf(schema: unknown, reference: unknown): unknown {
  if (typeof reference !== "string" || !reference.startsWith("#")) return undefined;
  const keys = reference.split("/").slice(1);
  return keys.reduce<unknown>((node, key) => {
    const name = decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~");
    return typeof node === "object" && node !== null ? (node as Record<string, unknown>)[name] : undefined;
  }, schema);
}
