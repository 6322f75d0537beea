/** Names of fields as every API of ours writes them: `in_flight`, where TypeScript says `inFlight`. */

/** A value for JSON whose fields, at every depth, have their API's names. Names that clients choose must not be keys in it. */
export function snakeNames(value: object): object {
  return withSnakeNames(value) as object;
}

function withSnakeNames(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withSnakeNames);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [snakeName(name), withSnakeNames(each)]));
}

const snakeName = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
