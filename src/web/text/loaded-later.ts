/** Parts of the app that few texts need: they are loaded when one does. */
import { signal } from "@preact/signals";

/** Texts that were shown before a part came are shown again. */
export const numLoaded = signal(0);

/** @returns gives the part; undefined: it is still on its way, or could not be loaded */
export function loadedLater<T>(load: () => Promise<T>): () => T | undefined {
  let part: T | undefined;
  let isAsked = false;
  const ask = async () => {
    isAsked = true;
    part = await load();
    numLoaded.value++;
  };
  return () => {
    // Without it, the text is shown plainly.
    if (!isAsked) ask().catch(() => {});
    return part;
  };
}
