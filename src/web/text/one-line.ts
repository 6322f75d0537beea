/** Shows names of chats and files, which are untrusted text, on one line. */

const MOST_CHARACTERS = 200;

/** Control characters, and marks that reverse the text after them: after U+202E, "txt.exe" reads as "exe.txt". */
const UNSEEN = /[\p{Cc}\p{Bidi_Control}]/gu;

export const withoutUnseen = (text: string): string => text.replace(/\s+/g, " ").replace(UNSEEN, "");

/** @example oneLine("a\n\u202Eb") // "a b" */
export function oneLine(text: string, mostCharacters = MOST_CHARACTERS): string {
  const words = withoutUnseen(text).trim();
  // A character has at most two code units.
  const characters = Array.from(words.slice(0, 2 * mostCharacters + 2));
  return characters.length <= mostCharacters ? words : `${characters.slice(0, mostCharacters - 1).join("")}…`;
}
