/** The hint for an unknown path that has a superfluous slash or repeats /v1; undefined for other paths. */
export function pathHint(path: string): string | undefined {
  if (path.startsWith("/v1/v1/")) return "the base URL ends in /v1 already";
  const plain = path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  return plain === path ? undefined : `write it without the extra slash: ${plain}`;
}
