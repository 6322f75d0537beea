/**
 * Volatile parts of a prompt, which change from request to request without changing its meaning: dates, times,
 * identifiers, counters.
 */

const PATTERNS: readonly RegExp[] = [
  // 2026-11-27, 2026-11-27T10:15:00Z, 27/11/2026
  /\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?/g,
  /\d{1,2}[./]\d{1,2}[./]\d{2,4}/g,
  // 27 November 2026, November 27, 2026
  /\b\d{1,2}\.? (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6},? \d{4}\b/g,
  /\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6} \d{1,2}(?:st|nd|rd|th)?,? \d{4}\b/g,
  /\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b/g,
  /\b\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp][Mm])?\b/g,
  /\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b/g,
  // Identifiers: letters and digits mixed, or many digits.
  /\b(?=[A-Za-z_-]{0,40}\d)(?=[\d_-]{0,40}[A-Za-z])[A-Za-z0-9_-]{10,64}\b/g,
  /\b\d{5,}\b/g,
];

/** @example withoutVolatile("Today is 2026-11-27.") // "Today is ◦." */
export const withoutVolatile = (text: string): string =>
  PATTERNS.reduce((result, pattern) => result.replace(pattern, "◦"), text);

export const isVolatile = (text: string): boolean => withoutVolatile(text) !== text;
