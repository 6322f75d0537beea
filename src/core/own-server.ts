/** Requests to servers of this machine, by its addresses. */

/**
 * As `fetch`, for paths that need no key. A certificate names the server's public name, not an address of this machine,
 * so it is not checked: nothing secret is sent, and only a program of this machine can answer.
 */
export async function askOwnServer(url: string, { signal }: { readonly signal: AbortSignal }): Promise<Response> {
  if (!url.startsWith("https:")) return await fetch(url, { signal });
  const { Agent, fetch: fetchBy } = await import("undici");
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false }, pipelining: 0 });
  return (await fetchBy(url, { signal, dispatcher })) as unknown as Response;
}
