/**
 * Describes a client's value in error messages: numbers and short words verbatim, other values by kind and size, never
 * long text or nested data.
 */
export function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null || typeof value === "boolean" || typeof value === "number") return String(value);
  if (typeof value === "string") {
    return value.length <= 40 ? JSON.stringify(value) : `a string of ${value.length} characters`;
  }
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return "an object";
}
