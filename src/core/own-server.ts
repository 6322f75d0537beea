/** Requests to servers on this machine, by its addresses. */

/**
 * Like `fetch`, for paths without a key. A certificate has the server's public name, not this machine's address, so it
 * is
 * not checked: nothing secret is sent, and only a program on this machine can answer.
 */
export async function askOwnServer(url: string, { signal }: { readonly signal: AbortSignal }): Promise<Response> {
  if (!url.startsWith("https:")) return await fetch(url, { signal });
  const { Agent, fetch: fetchBy } = await import("undici");
  const dispatcher = new Agent({ connect: { rejectUnauthorized: false }, pipelining: 0 });
  return (await fetchBy(url, { signal, dispatcher })) as unknown as Response;
}
