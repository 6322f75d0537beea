/**
 * The message being written. Its text survives a reload of the tab; its files do not, because the tab's store is too
 * small for them.
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
    // The draft is longer than the tab's storage. Without the removal, an older draft would come back in its place.
    sessionStorage.removeItem(KEY);
  }
});

export function setDraft(text: string, files: readonly Attachment[]): void {
  draft.value = text;
  attached.value = files;
}

let aside: readonly [string, readonly Attachment[]] | undefined;

/** Puts the draft aside while an earlier question is edited. */
export function putAside(): void {
  aside ??= [draft.value, attached.value];
}

/** Restores the saved draft, or empties the box. */
export function bringBack(): void {
  setDraft(...(aside ?? ["", []]));
  aside = undefined;
}
