/**
 * The text of a managed key, and the hash that is stored in its place. A key is 256 random bits, so nobody can guess it
 * from its hash, and a plain SHA-256 is enough: slow hashes protect short passwords, and would cost every request tens
 * of milliseconds.
 */
import { createHash, randomBytes } from "node:crypto";

const PREFIX = "mk-";
const KEY_BYTES = 32;
const KEY = /^mk-[A-Za-z0-9_-]{43}$/;
/** 80 random bits. */
const ID_BYTES = 10;

export function newKeyText(): string {
  return `${PREFIX}${randomBytes(KEY_BYTES).toString("base64url")}`;
}

export function isKeyText(text: string): boolean {
  return KEY.test(text);
}

/** The hash by which a key is found. The lookup's time may depend on the hash, which reveals nothing about the key. */
export function hashOf(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

/** A hint by which people can tell their keys apart. */
export function hintOf(key: string): string {
  return `${PREFIX}…${key.slice(-4)}`;
}

/** An id that is not secret. @example newId("key") // "key-3f0c…" */
export function newId(kind: string): string {
  return `${kind}-${randomBytes(ID_BYTES).toString("hex")}`;
}

/** A cache scope (core/cache-scope.ts) that nobody can guess. */
export function newCacheScope(): string {
  return randomBytes(16).toString("hex");
}
