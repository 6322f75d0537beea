/** Parts of the app that few texts need; the first such text loads them. */
import { signal } from "@preact/signals";

/** Number of parts loaded so far: texts from before a part arrived are rendered again. */
export const numLoaded = signal(0);

/** @returns a function that returns the part; undefined: it is still loading, or failed to load */
export function loadedLater<T>(load: () => Promise<T>): () => T | undefined {
  let part: T | undefined;
  let isAsked = false;
  const ask = async () => {
    isAsked = true;
    part = await load();
    numLoaded.value++;
  };
  return () => {
    // Without the part, the text is shown plainly.
    if (!isAsked) ask().catch(() => {});
    return part;
  };
}
