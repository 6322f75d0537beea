/** Quotes words for a POSIX shell's command line. */

/** @example shellWord("it's") // "'it'\\''s'" */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
