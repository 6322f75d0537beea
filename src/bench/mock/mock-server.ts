/**
 * A server with known timings: every token is due at an absolute time after its request arrived. It implements just
 * enough HTTP for the load generator, on bare sockets, so that its own work does not show in the measurement.
 */
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { median } from "../../core/statistics.js";
import { Agenda } from "../load/agenda.js";

export interface MockTimings {
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** Tokens per event; more than one, as with speculation. */
  readonly tokensPerChunk: number;
  /** The agenda's parameter; 0 if the mock shares its cores with the measured program. */
  readonly spinMs?: number;
  /** The process never sleeps, so that no request waits for a wake-up. */
  readonly isAwake?: boolean;
}

/** The mock's own timings: medians over the requests since the last call. */
export interface MockActual {
  readonly numRequests: number;
  readonly ttftMs: number;
  readonly tpotMs: number;
}

interface HttpRequest {
  readonly path: string;
  readonly body: string;
}

interface CompletionBody {
  readonly prompt?: string | readonly number[];
  readonly messages?: readonly { readonly content: string | readonly { readonly text?: string }[] }[];
  readonly max_tokens?: number;
  readonly max_completion_tokens?: number;
  readonly stream?: boolean;
}

const CHAT_OVERHEAD = 4;
const HEADERS =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n";

const httpChunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
const sseEvent = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

function tokenEvent(isChat: boolean, numTokens: number): string {
  const text = " word".repeat(numTokens);
  const choice = isChat ? { index: 0, delta: { content: text } } : { index: 0, text };
  return sseEvent({ id: "mock", model: "mock", choices: [{ ...choice, finish_reason: null }] });
}

function promptTokens({ prompt, messages = [] }: CompletionBody): number {
  const words = (text: string) => text.split(/\s+/).filter((word) => word !== "").length;
  if (prompt !== undefined) return typeof prompt === "string" ? words(prompt) : prompt.length;
  const textOf = (content: string | readonly { readonly text?: string }[]) =>
    typeof content === "string" ? content : content.map(({ text = "" }) => text).join(" ");
  return messages.reduce((sum, { content }) => sum + words(textOf(content)), CHAT_OVERHEAD);
}

export class MockServer {
  readonly #agenda: Agenda;
  readonly #server: Server;
  readonly #chunks: Readonly<Record<"chat" | "text", Buffer>>;
  #ttftsMs: number[] = [];
  #tpotsMs: number[] = [];

  constructor(private readonly timings: MockTimings) {
    this.#agenda = new Agenda(() => performance.now(), timings.spinMs);
    const chunk = (isChat: boolean) => Buffer.from(httpChunk(tokenEvent(isChat, timings.tokensPerChunk)));
    this.#chunks = { chat: chunk(true), text: chunk(false) };
    this.#server = createServer({ noDelay: true }, (socket) => this.#serve(socket));
  }

  /** @returns the port */
  listen(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(0, "127.0.0.1", () => resolve((this.#server.address() as AddressInfo).port));
    });
  }

  #serve(socket: Socket): void {
    let bytes: Buffer = Buffer.alloc(0);
    socket.on("error", () => {});
    socket.on("data", (more: Buffer) => {
      const nowMs = performance.now();
      bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more]);
      for (;;) {
        const request = takeRequest(bytes);
        if (request === undefined) return;
        bytes = request.rest;
        this.#answer(socket, request, nowMs);
      }
    });
  }

  #answer(socket: Socket, { path, body }: HttpRequest, nowMs: number): void {
    const isChat = path === "/v1/chat/completions";
    if (isChat || path === "/v1/completions") this.#complete(socket, JSON.parse(body) as CompletionBody, isChat, nowMs);
    else if (path === "/v1/models") json(socket, 200, { data: [{ id: "mock" }] });
    else if (path === "/health") json(socket, 200, {});
    else if (path === "/actual") json(socket, 200, this.#takeActual());
    else json(socket, 404, { error: { message: `no ${path} here` } });
  }

  /**
   * An answer without streaming takes no time, so that such requests measure only the path between client and server.
   */
  #complete(socket: Socket, body: CompletionBody, isChat: boolean, nowMs: number): void {
    if (body.stream !== false) this.#stream(socket, body, isChat, nowMs);
    else json(socket, 200, { id: "mock", choices: [{ index: 0, text: "word", finish_reason: "length" }] });
  }

  #takeActual(): MockActual {
    const [ttftsMs, tpotsMs] = [this.#ttftsMs, this.#tpotsMs];
    [this.#ttftsMs, this.#tpotsMs] = [[], []];
    return { numRequests: ttftsMs.length, ttftMs: median(ttftsMs), tpotMs: median(tpotsMs) };
  }

  #stream(socket: Socket, body: CompletionBody, isChat: boolean, receivedMs: number): void {
    const { ttftMs, tpotMs, tokensPerChunk } = this.timings;
    const numTokens = body.max_tokens ?? body.max_completion_tokens ?? 16;
    const numChunks = Math.ceil(numTokens / tokensPerChunk);
    const chunk = this.#chunks[isChat ? "chat" : "text"];
    let firstMs = 0;
    let sent = 0;
    const step = (): void => {
      if (socket.destroyed) return;
      const nowMs = performance.now();
      if (sent === 0) {
        firstMs = nowMs;
        socket.write(HEADERS);
      }
      sent++;
      if (sent < numChunks) {
        socket.write(chunk);
        this.#agenda.at(receivedMs + ttftMs + sent * tokensPerChunk * tpotMs, step);
        return;
      }
      const numLast = numTokens - (numChunks - 1) * tokensPerChunk;
      socket.write(lastChunks(body, isChat, numTokens, numLast));
      this.#ttftsMs.push(firstMs - receivedMs);
      if (numTokens > 1) this.#tpotsMs.push((nowMs - firstMs) / (numTokens - 1));
    };
    this.#agenda.at(receivedMs + ttftMs, step);
  }
}

function lastChunks(body: CompletionBody, isChat: boolean, numTokens: number, numLast: number): string {
  const end = isChat ? { delta: {} } : { text: "" };
  const usage = { prompt_tokens: promptTokens(body), completion_tokens: numTokens };
  const events = [
    tokenEvent(isChat, numLast),
    sseEvent({ id: "mock", choices: [{ index: 0, ...end, finish_reason: "length" }] }),
    sseEvent({ id: "mock", choices: [], usage }),
    "data: [DONE]\n\n",
  ];
  return `${httpChunk(events.join(""))}0\r\n\r\n`;
}

function json(socket: Socket, status: number, value: unknown): void {
  const body = JSON.stringify(value);
  const head = `HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`;
  socket.write(`${head}\r\n\r\n${body}`);
}

/** The first complete request in the bytes, and the bytes after it. */
function takeRequest(bytes: Buffer): (HttpRequest & { readonly rest: Buffer }) | undefined {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const head = bytes.toString("latin1", 0, headEnd);
  const bodyStart = headEnd + 4;
  const bodyEnd = bodyStart + Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
  if (bytes.length < bodyEnd) return undefined;
  const body = bytes.toString("utf8", bodyStart, bodyEnd);
  return { path: head.split(" ")[1] ?? "/", body, rest: bytes.subarray(bodyEnd) };
}
