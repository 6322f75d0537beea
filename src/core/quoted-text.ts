/** JSON of texts that recur in many requests, such as model names: finding it is cheaper than making it. */

const known = new Map<string, string>();
const MAX_KNOWN = 1000;
const MAX_KNOWN_LENGTH = 100;

/** The same as `JSON.stringify`. */
export function quoted(text: string): string {
  const before = known.get(text);
  if (before !== undefined) return before;
  const json = JSON.stringify(text);
  if (text.length > MAX_KNOWN_LENGTH) return json;
  if (known.size >= MAX_KNOWN) known.clear();
  known.set(text, json);
  return json;
}
