/**
 * Servers that stand in for paid APIs in tests. They refuse what the real APIs refuse (unknown and missing fields,
 * wrong keys, ranges, orders of roles, signatures) with the real APIs' errors, and answer in the shapes that those
 * documented and were recorded with.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { z } from "zod";

export interface ProviderAsked {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly raw: Buffer;
  readonly body: Record<string, unknown>;
}

export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON. A list is sent one by one. */
  readonly body: object | string | readonly (string | Buffer)[];
  /** The connection breaks, or stays without an answer, after all has been done. */
  readonly lost?: "broken" | "silent";
}

/** What the model is to say, told by the last text of the conversation. */
export interface Said {
  readonly texts: readonly string[];
  readonly thoughts: readonly string[];
  readonly calls: readonly { readonly id: string; readonly name: string; readonly pieces: readonly string[] }[];
}

/**
 * A model's manners: "weather" makes it call its first tool ("twice": two calls), a result ends that, "think" makes it
 * think first.
 */
export function saidTo(lastText: string, hasResult: boolean, toolName: string | undefined): Said {
  const thoughts = lastText.includes("think") ? ["The user ", "wants a word."] : [];
  if (toolName !== undefined && lastText.includes("weather") && !hasResult) {
    const call = (n: number, city: string) => ({
      id: `call_${n}Zq8dXk2`,
      name: toolName,
      pieces: ['{"ci', 'ty": "', `${city}"`, "}"],
    });
    const calls = lastText.includes("twice") ? [call(1, "Köln"), call(2, "Oslo")] : [call(1, "Köln")];
    return { texts: lastText.includes("silently") ? [] : ["Let me ", "look."], thoughts, calls };
  }
  return { texts: hasResult ? ["It is ", "sunny: ☀."] : ["Hello", ", wor", "ld! 😀"], thoughts, calls: [] };
}

export class Refusal extends Error {
  constructor(readonly reply: Reply) {
    super("refused");
  }
}

export interface ProviderServer extends AsyncDisposable {
  readonly url: string;
  readonly asked: ProviderAsked[];
  /** Replies that are given before any other, whatever is asked. */
  readonly next: Reply[];
  readonly numCut: { count: number };
}

export async function startProviderServer(answer: (asked: ProviderAsked) => Reply): Promise<ProviderServer> {
  const asked: ProviderAsked[] = [];
  const next: Reply[] = [];
  const numCut = { count: 0 };
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    outgoing.on("close", () => {
      if (!outgoing.writableFinished) numCut.count++;
    });
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const raw = Buffer.concat(chunks);
      let reply: Reply;
      try {
        const isForm = incoming.headers["content-type"]?.startsWith("multipart/form-data") === true;
        const body = raw.length === 0 || isForm ? {} : JSON.parse(raw.toString("utf8"));
        const request = { method: incoming.method!, url: incoming.url!, headers: incoming.headers, raw, body };
        asked.push(request);
        reply = next.shift() ?? answer(request);
      } catch (thrown) {
        reply =
          thrown instanceof Refusal ? thrown.reply : { status: 500, body: { error: { message: String(thrown) } } };
      }
      void send(outgoing, reply);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    next,
    numCut,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function send(outgoing: ServerResponse, { status = 200, headers = {}, body, lost }: Reply): Promise<void> {
  if (lost === "silent") return;
  if (lost === "broken") return void outgoing.destroy();
  if (Array.isArray(body)) {
    outgoing.writeHead(status, headers);
    for (const piece of body as readonly (string | Buffer)[]) {
      outgoing.write(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    outgoing.end();
    return;
  }
  const text = typeof body === "string" ? body : JSON.stringify(body);
  outgoing.writeHead(status, { "content-type": "application/json", ...headers });
  outgoing.end(text);
}

/** Throws the refusal that the real API would make of the first fault. */
export function checked<T>(schema: z.ZodType<T>, value: unknown, refuse: (path: string, message: string) => Reply): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const keys = issue!.code === "unrecognized_keys" ? issue!.keys : [];
  throw new Refusal(refuse([...issue!.path, ...keys].join("."), issue!.message));
}
