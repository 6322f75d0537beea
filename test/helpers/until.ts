/** @returns what `look` finds, as soon as there is something; throws after half a minute */
export async function until<T>(look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (let i = 0; i < 1500; i++) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("it did not happen in 30 s");
}
