/**
 * The parsed answer of an HTTP server. Tests compare it with what they expect, field by field, so its type would say
 * everything twice.
 */
// biome-ignore lint/suspicious/noExplicitAny: a wrong field fails the comparison
export type Json = any;
