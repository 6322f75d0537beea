/** The app as the server sends it, with its headers, before answers that are to go wrong in their turn. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createApp } from "../../src/serve/app.js";
import { fakeAppOptions } from "./fake-server.js";

interface ChatRequest {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly [field: string]: unknown;
}

export type Answer = (response: ServerResponse) => void;

export const CONTEXT = 40;
const SSE = { "content-type": "text/event-stream" };

export const delta = (fields: object, finish: string | null = null, more: object = {}): string =>
  `data: ${JSON.stringify({ choices: [{ delta: fields, finish_reason: finish, ...more }] })}\n\n`;
const chunk = (content: string, finish: string | null = null): string => delta({ content }, finish);
const usage = (total: number): string =>
  `data: ${JSON.stringify({ choices: [], usage: { completion_tokens: 2, total_tokens: total } })}\n\n`;

export const events =
  (...parts: readonly string[]): Answer =>
  (response) =>
    response.writeHead(200, SSE).end(`${parts.join("")}data: [DONE]\n\n`);

export const whole = (text: string, finish = "stop", total = 9): Answer =>
  events(chunk(text), chunk("", finish), usage(total));

/** An answer that begins, and goes on as the caller says. */
export const begun: Answer = (response) => void response.writeHead(200, SSE).write(chunk("Half an"));
/** An answer that begins and never ends. */
export const endless: Answer = (response) => void response.writeHead(200, SSE).write(chunk("On and on"));
/** An answer of which nothing comes. */
export const silent: Answer = (response) => void response.writeHead(200, SSE).flushHeaders();
export const refusal =
  (status: number, code: string): Answer =>
  (response) =>
    response.writeHead(status).end(JSON.stringify({ error: { message: `expected less, got ${code}`, code } }));

interface PageServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: ChatRequest[];
}

export async function serveAnswers(...answers: Answer[]): Promise<PageServer> {
  const app = createApp(fakeAppOptions().options);
  const requests: ChatRequest[] = [];
  const server = createServer(async (request, response) => {
    // As a proxy in front of the server would, under /sub/.
    const path = (request.url ?? "/").replace(/^\/sub(?=\/)/, "");
    if (path === "/v1/models") {
      const data = ["canned", "second"].map((id) => ({ id, max_model_len: CONTEXT }));
      response.end(JSON.stringify({ data }));
    } else if (path === "/v1/chat/completions") {
      let body = "";
      for await (const piece of request) body += piece;
      requests.push(JSON.parse(body) as ChatRequest);
      answers.shift()?.(response);
    } else {
      const answer = await app.request(path, {}, { incoming: request });
      response.writeHead(answer.status, Object.fromEntries(answer.headers));
      response.end(Buffer.from(await answer.arrayBuffer()));
    }
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
