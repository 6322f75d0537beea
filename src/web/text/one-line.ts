/** Names of chats and files: anybody's text, shown on one line. */

const MOST_CHARACTERS = 200;

/** Controls, and marks that turn the direction of what follows: after U+202E, "txt.exe" is read as "exe.txt". */
const UNSEEN = /[\p{Cc}\p{Bidi_Control}]/gu;

export const withoutUnseen = (text: string): string => text.replace(/\s+/g, " ").replace(UNSEEN, "");

/** @example oneLine("a\n\u202Eb") // "a b" */
export function oneLine(text: string, mostCharacters = MOST_CHARACTERS): string {
  const words = withoutUnseen(text).trim();
  // A character has at most two code units.
  const characters = Array.from(words.slice(0, 2 * mostCharacters + 2));
  return characters.length <= mostCharacters ? words : `${characters.slice(0, mostCharacters - 1).join("")}…`;
}
