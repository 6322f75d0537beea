/** Cross-origin headers, kept as a plain record because streamed answers are written past Hono. Credentials are never allowed. */
export type HeaderRecord = Readonly<Record<string, string>>;

/** Any. */
export const DEFAULT_CORS_ORIGINS: readonly string[] = ["*"];

const EXPOSED = "X-Request-Id, Retry-After, X-Should-Retry";

export function corsHeaders(origin: string | undefined, allowedOrigins: readonly string[]): HeaderRecord {
  if (origin === undefined) return {};
  if (allowedOrigins.includes("*")) {
    return { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": EXPOSED };
  }
  if (!allowedOrigins.includes(origin)) return { Vary: "Origin" };
  return { "Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": EXPOSED, Vary: "Origin" };
}

/** A preflight's answer; an origin that is not allowed gets no permission and the browser stops there. */
export function preflightHeaders(
  origin: string | undefined,
  requestedHeaders: string | undefined,
  allowedOrigins: readonly string[],
): HeaderRecord {
  const base = corsHeaders(origin, allowedOrigins);
  if (base["Access-Control-Allow-Origin"] === undefined) return base;
  return {
    ...base,
    "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
    // Authorization is never covered by a wildcard, so the asked-for names are granted by name.
    "Access-Control-Allow-Headers": requestedHeaders ?? "Authorization, Content-Type, X-Request-Id",
    "Access-Control-Max-Age": "86400",
  };
}
