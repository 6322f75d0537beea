/** Field names in the form of our APIs: `in_flight` for TypeScript's `inFlight`. */

/** A value for JSON with the API's field names at every depth. Its keys must not be names that clients choose. */
export function snakeNames(value: object): object {
  return withSnakeNames(value) as object;
}

function withSnakeNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSnakeNames);
  if (typeof value !== "object" || value === null) return value;
  const named: Record<string, unknown> = {};
  for (const [name, each] of Object.entries(value)) named[snakeName(name)] = withSnakeNames(each);
  return named;
}

/** Cache of converted names: lists repeat a few names thousands of times. */
const known = new Map<string, string>();
const MOST_KNOWN = 1000;

function snakeName(name: string): string {
  let snake = known.get(name);
  if (snake !== undefined) return snake;
  snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  if (known.size < MOST_KNOWN) known.set(name, snake);
  return snake;
}
