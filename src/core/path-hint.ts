/** The remedy for a path that is not there but for a slip in its slashes or its base; undefined for others. */
export function pathHint(path: string): string | undefined {
  if (path.startsWith("/v1/v1/")) return "the base URL ends in /v1 already";
  const plain = path.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  return plain === path ? undefined : `write it without the extra slash: ${plain}`;
}
