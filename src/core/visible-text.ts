/** Text from clients, models and files, for terminals: control characters would move the cursor, or worse. */

const CONTROLS = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Shows control characters, and characters that change the text's direction. @example visible("a\tb") // "a\\u0009b"
 */
export function visible(text: string): string {
  return text.replace(CONTROLS, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The same for texts of many lines, with their line ends and tabs unchanged. */
export function visibleLines(text: string): string {
  return text.replace(/[^\t\r\n]+/g, visible);
}
