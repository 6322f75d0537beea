/**
 * node-llama-cpp behind the HTTP API that the load generator uses, in a separate process: argument 1 is a `ServerJob`
 * as JSON. One context has a sequence for each seat, which the library batches. A request takes the free sequence with
 * the longest common prefix, or waits for one.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

interface NodeLlamaCppServerJob {
  /** The folder with node_modules/node-llama-cpp. */
  readonly folder: string;
  readonly modelPath: string;
  /** Undefined: the library's default. */
  readonly numThreads: number | undefined;
  readonly port: number;
  readonly seats: number;
  /** Tokens of context for each sequence. */
  readonly contextSize: number;
}

/** The part of node-llama-cpp's interface that is used here (its documentation, version 3.22). */
interface NodeLlamaCpp {
  getLlama(options: object): Promise<{
    loadModel(options: object): Promise<LlamaModel>;
  }>;
}

interface LlamaModel {
  tokenize(text: string): readonly number[];
  detokenize(tokens: readonly number[]): string;
  isEogToken(token: number): boolean;
  createContext(options: object): Promise<{ getSequence(): LlamaSequence }>;
}

interface LlamaSequence {
  readonly contextTokens: readonly number[];
  readonly nextTokenIndex: number;
  adaptStateToTokens(tokens: readonly number[], allowShift: boolean): Promise<void>;
  evaluate(tokens: readonly number[], options: object): AsyncGenerator<number, void, void>;
}

interface CompletionBody {
  readonly prompt?: string | readonly number[];
  readonly content?: string;
  readonly max_tokens?: number;
  readonly temperature?: number;
  readonly ignore_eos?: boolean;
}

class Seats {
  readonly #free: LlamaSequence[];
  readonly #waiting: ((sequence: LlamaSequence) => void)[] = [];

  constructor(sequences: readonly LlamaSequence[]) {
    this.#free = [...sequences];
  }

  async take(tokens: readonly number[]): Promise<LlamaSequence> {
    const [best] = this.#free.toSorted((a, b) => numShared(b, tokens) - numShared(a, tokens));
    if (best === undefined) return new Promise((seated) => this.#waiting.push(seated));
    this.#free.splice(this.#free.indexOf(best), 1);
    return best;
  }

  giveBack(sequence: LlamaSequence): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(sequence);
    else next(sequence);
  }
}

function numShared({ contextTokens }: LlamaSequence, tokens: readonly number[]): number {
  const end = tokens.findIndex((token, i) => contextTokens[i] !== token);
  return end < 0 ? tokens.length : end;
}

async function stream(model: LlamaModel, seats: Seats, body: CompletionBody, response: ServerResponse): Promise<void> {
  const { prompt = "", max_tokens: maxTokens = 16, temperature = 1, ignore_eos: ignoresEos = false } = body;
  const tokens = typeof prompt === "string" ? model.tokenize(prompt) : prompt;
  const sequence = await seats.take(tokens);
  const send = (fields: object) => response.write(`data: ${JSON.stringify({ id: "completion", ...fields })}\n\n`);
  try {
    // The last token is always computed, so its logits need not be kept.
    await sequence.adaptStateToTokens(tokens.slice(0, -1), false);
    const numCached = sequence.nextTokenIndex;
    response.writeHead(200, { "content-type": "text/event-stream" });
    let numTokens = 0;
    let reason = "length";
    for await (const token of sequence.evaluate(tokens.slice(numCached), { temperature, yieldEogToken: true })) {
      numTokens++;
      const isEnd = !ignoresEos && model.isEogToken(token);
      // Incomplete characters and special tokens have no text.
      if (!isEnd) send({ choices: [{ index: 0, text: model.detokenize([token]) || "\u00a0", finish_reason: null }] });
      if (isEnd) reason = "stop";
      if (isEnd || numTokens >= maxTokens || response.destroyed) break;
    }
    send({ choices: [{ index: 0, text: "", finish_reason: reason }] });
    const details = { prompt_tokens_details: { cached_tokens: numCached } };
    send({ choices: [], usage: { prompt_tokens: tokens.length, completion_tokens: numTokens, ...details } });
    response.end("data: [DONE]\n\n");
  } finally {
    seats.giveBack(sequence);
  }
}

async function bodyOf(request: IncomingMessage): Promise<CompletionBody> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  return (text === "" ? {} : JSON.parse(text)) as CompletionBody;
}

async function main(job: NodeLlamaCppServerJob): Promise<void> {
  const entry = join(resolve(job.folder), "node_modules/node-llama-cpp/dist/index.js");
  const { getLlama } = (await import(pathToFileURL(entry).href)) as NodeLlamaCpp;
  const { numThreads, seats: numSeats, contextSize } = job;
  const threads = numThreads === undefined ? {} : { maxThreads: numThreads };
  const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", ...threads });
  const model = await llama.loadModel({ modelPath: job.modelPath });
  const context = await model.createContext({
    sequences: numSeats,
    contextSize,
    batchSize: Math.max(512, numSeats),
    flashAttention: true,
    ...(numThreads === undefined ? {} : { threads: { ideal: numThreads, min: numThreads } }),
  });
  const seats = new Seats(Array.from({ length: numSeats }, () => context.getSequence()));
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const json = (status: number, value: object) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (request.url === "/health") json(200, {});
    else if (request.url === "/v1/models") json(200, { data: [{ id: "node-llama-cpp", max_model_len: contextSize }] });
    else if (request.url === "/tokenize") {
      const { content, prompt } = await bodyOf(request);
      json(200, { tokens: model.tokenize(content ?? String(prompt ?? "")) });
    } else if (request.url === "/v1/completions") await stream(model, seats, await bodyOf(request), response);
    else json(404, { error: { message: `no ${request.url} here` } });
  };
  createServer((request, response) => {
    answer(request, response).catch((thrown: unknown) => response.destroy(thrown as Error));
  }).listen(job.port, "127.0.0.1");
}

await main(JSON.parse(process.argv[2] ?? "{}") as NodeLlamaCppServerJob);
