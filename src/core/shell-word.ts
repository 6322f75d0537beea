/** Words of a command line as a POSIX shell reads them. */

/** @example shellWord("it's") // "'it'\\''s'" */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
