/**
 * The message that is being written. Its words outlive a reload of the tab; its files do not, for which the tab's store
 * is too small.
 */
import { effect, signal } from "@preact/signals";
import type { Attachment } from "./conversation.js";

const KEY = "millrace-draft";

export const draft = signal(sessionStorage.getItem(KEY) ?? "");
export const attached = signal<readonly Attachment[]>([]);

effect(() => {
  try {
    sessionStorage.setItem(KEY, draft.value);
  } catch {
    // It is longer than the tab's store: an older one would come back in its place.
    sessionStorage.removeItem(KEY);
  }
});

export function setDraft(text: string, files: readonly Attachment[]): void {
  draft.value = text;
  attached.value = files;
}

let aside: readonly [string, readonly Attachment[]] | undefined;

/** What is being written makes way for an edit. */
export function putAside(): void {
  aside ??= [draft.value, attached.value];
}

/** The box has what was put aside, or else nothing. */
export function bringBack(): void {
  setDraft(...(aside ?? ["", []]));
  aside = undefined;
}
