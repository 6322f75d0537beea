/** Finds the `usage` of a stream's event in its text, without parsing the event. */

export interface UsagePlace {
  /** Offsets of the member's name, of its value, and of the value's end. */
  readonly start: number;
  readonly value: number;
  readonly end: number;
}

/** Quotes inside JSON strings are escaped, so generated text cannot match it. */
const MEMBER = '"usage":';
/** An object that may contain flat objects. */
const VALUE = /\s*(?:null|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})/y;

/** Whether `findUsage` may find something in the events. */
export const hasUsage = (events: Buffer): boolean => events.includes(MEMBER);

/** @param event bytes read as Latin-1, or text */
export function findUsage(event: string): UsagePlace | undefined {
  const start = event.lastIndexOf(MEMBER);
  if (start < 0) return undefined;
  const value = start + MEMBER.length;
  VALUE.lastIndex = value;
  return VALUE.test(event) ? { start, value, end: VALUE.lastIndex } : undefined;
}

/**
 * The end of each event in a stream's text. Most servers end lines with a line feed alone, others with a carriage
 * return before it.
 */
export const eventEndOf = (text: string): string => (text.includes("\r") ? "\n\r\n" : "\n\n");

/** Calls `use` with each event and the empty line after it. @param text whole events */
export function eachEvent(text: string, use: (event: string) => void): void {
  const eventEnd = eventEndOf(text);
  let start = 0;
  while (start < text.length) {
    const found = text.indexOf(eventEnd, start);
    const end = found < 0 ? text.length : found + eventEnd.length;
    use(start === 0 && end === text.length ? text : text.slice(start, end));
    start = end;
  }
}
