/** Edits a request's JSON for one instance. */
import type { JsonObject } from "../../core/json-body.js";
import { withFields } from "../../gateway/edit-json.js";

export interface BodyEdit {
  /** Replaces the request's `model`. */
  readonly model?: string | undefined;
  /** Set if the request has no `seed`. */
  readonly seed?: number | undefined;
  /** Replaces the request's `cache_salt`. */
  readonly cacheSalt?: string | undefined;
  /** Replaces the request's `priority`. */
  readonly priority?: number | undefined;
  /** Replaces the request's `timeout`, in seconds. */
  readonly timeout?: number | undefined;
}

/** @param bytes the JSON of `body` */
export function editBody(bytes: Buffer, body: JsonObject, edit: BodyEdit): Buffer {
  const { model, seed, cacheSalt, priority, timeout } = edit;
  const fields: Record<string, unknown> = {};
  if (seed !== undefined && !("seed" in body)) fields.seed = seed;
  if (model !== undefined) fields.model = model;
  if (cacheSalt !== undefined) fields.cache_salt = cacheSalt;
  if (priority !== undefined) fields.priority = priority;
  if (timeout !== undefined) fields.timeout = timeout;
  return withFields(bytes, body, fields);
}
