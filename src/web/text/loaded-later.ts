/** Parts of the app that few texts need: they are loaded with the first text that does. */
import { signal } from "@preact/signals";

/** Number of parts loaded so far: texts that were shown before a part arrived are rendered again. */
export const numLoaded = signal(0);

/** @returns a function that gives the part; undefined: it is still loading, or could not be loaded */
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
