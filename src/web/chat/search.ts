/** Searches the conversations' titles, messages, answers and files. */
import { computed, effect, signal, untracked } from "@preact/signals";
import { errorText } from "../parts/load.js";
import { withoutUnseen } from "../text/one-line.js";
import { entries, knownChats, readServerTexts, type ShelfEntry } from "./chat-shelf.js";
import type { Conversation } from "./conversation.js";

/** The first place of the words. */
export interface FoundPlace {
  readonly pane: number;
  readonly turn: number;
  readonly before: string;
  readonly match: string;
  readonly after: string;
}

export interface FoundChat {
  readonly entry: ShelfEntry;
  /** Undefined: only the title has the words. */
  readonly place: FoundPlace | undefined;
}

const BEFORE_CHARACTERS = 30;
const AFTER_CHARACTERS = 90;

/** The search words. */
export const wanted = signal("");
/** The reason why some texts were not searched. */
export const searchError = signal<string | undefined>(undefined);

/** The words in any case, with any white space between them; undefined: there are none. */
export function patternOf(words: string): RegExp | undefined {
  const parts = words.trim().split(/\s+/);
  if (parts[0] === "") return undefined;
  return new RegExp(parts.map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("\\s+"), "iu");
}

export function placeIn({ panes }: Conversation, pattern: RegExp): FoundPlace | undefined {
  for (const [pane, { turns }] of panes.entries()) {
    for (const [turn, { content, files = [] }] of turns.entries()) {
      for (const text of [content, ...files.map((file) => file.text)]) {
        const found = pattern.exec(text);
        if (found === null) continue;
        const { index } = found;
        const end = index + found[0].length;
        return {
          pane,
          turn,
          before: withoutUnseen(text.slice(Math.max(0, index - BEFORE_CHARACTERS), index)),
          match: withoutUnseen(found[0]),
          after: withoutUnseen(text.slice(end, end + AFTER_CHARACTERS)),
        };
      }
    }
  }
  return undefined;
}

export const pattern = computed(() => patternOf(wanted.value));

/** Caches the result for an unchanged text and the same words. */
const places = computed(() => {
  const known = new WeakMap<Conversation, { readonly place: FoundPlace | undefined }>();
  const sought = pattern.value;
  return (chat: Conversation): FoundPlace | undefined => {
    let result = known.get(chat);
    if (result === undefined) {
      result = { place: sought === undefined ? undefined : placeIn(chat, sought) };
      known.set(chat, result);
    }
    return result.place;
  };
});

/** Undefined: there is no search. */
export const foundChats = computed<readonly FoundChat[] | undefined>(() => {
  const sought = pattern.value;
  if (sought === undefined) return undefined;
  return entries.value.flatMap((entry) => {
    const chat = knownChats.value.get(entry.id);
    const place = chat === undefined ? undefined : places.value(chat);
    return place !== undefined || sought.test(entry.title) ? { entry, place } : [];
  });
});

// The server's list has titles; a search loads the texts.
effect(() => {
  if (pattern.value === undefined) searchError.value = undefined;
  if (pattern.value === undefined || entries.value.length === 0) return;
  untracked(() => {
    readServerTexts().then(
      () => {
        searchError.value = undefined;
      },
      (thrown: unknown) => {
        if (pattern.value !== undefined) searchError.value = `Not all texts could be searched: ${errorText(thrown)}`;
      },
    );
  });
});
