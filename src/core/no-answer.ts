/**
 * The reason why a `fetch` had no answer, as far as the system reports it.
 * @example noAnswer(thrown) // "no answer (ECONNREFUSED)", or (DEPTH_ZERO_SELF_SIGNED_CERT) of a distrusted certificate
 */
export function noAnswer(thrown: unknown): string {
  const { code } = ((thrown as Error).cause ?? {}) as NodeJS.ErrnoException;
  return code === undefined ? "no answer" : `no answer (${code})`;
}
