/** JSON pointers (RFC 6901) as fragments, with which a schema refers to its own parts. */

/** @returns undefined if the pointer leads nowhere or outside `root` */
export function resolvePointer(root: unknown, pointer: string): unknown {
  if (pointer !== "#" && !pointer.startsWith("#/")) return undefined;
  let value: unknown = root;
  for (const part of pointer.split("/").slice(1)) {
    const key = decode(part);
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[key];
  }
  return value;
}

/** Escapes a key for use in a pointer. */
export const escapePointer = (key: string): string => key.replaceAll("~", "~0").replaceAll("/", "~1");

function decode(part: string): string {
  const unescaped = part.replaceAll("~1", "/").replaceAll("~0", "~");
  try {
    return decodeURIComponent(unescaped);
  } catch {
    return unescaped;
  }
}
