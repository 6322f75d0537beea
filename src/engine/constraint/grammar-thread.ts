/**
 * The thread that compiles grammars and computes masks. A refused grammar may leave the grammar engine unusable; the
 * thread then reports that and ends.
 */
import { type MessagePort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { errorToRecord, MillraceError } from "../../core/errors.js";
import { grammarOfRecipe } from "../../text/answer/answer-recipe.js";
import { hasSignals, SIGNAL_TOKENS } from "../../text/grammar/string-length.js";
import { MaskMemory, NOTHING, ONLY_STOP } from "./mask-memory.js";
import type { ComputeMasks, FromGrammarThread, GrammarThreadData, OpenGrammar, ToGrammarThread } from "./messages.js";
import { MAX_CACHED_GRAMMARS, RecentMap } from "./recent-map.js";
import { type BoundsMark, StringBounds, TokenLengths } from "./string-bounds.js";
import { readTokenBytes } from "./token-bytes.js";
import type { CompiledGrammar, GrammarCompiler, GrammarMatcher, Xgrammar } from "./xgrammar.js";
import { loadXgrammar } from "./xgrammar.js";

interface OpenRequest {
  readonly matcher: GrammarMatcher;
  /** Absent: the grammar has no strings of bounded length. */
  readonly bounds: StringBounds | undefined;
  readonly stopIds: ReadonlySet<number>;
  /** One bit per stop token, those of the request included. */
  readonly stopMask: Int32Array;
  /** The last draft, as far as the grammar allows it, with the bounds that hold after each token. */
  guesses: readonly Guess[];
}

interface Guess {
  readonly tokenId: number;
  readonly mark: BoundsMark;
}

class Refusal extends Error {}
/** An error in the thread itself, whatever the request. */
class OwnFault extends Error {}

interface KnownGrammar {
  readonly compiled: CompiledGrammar;
  /** The grammar leaves the lengths of some strings to be counted here. */
  readonly hasBounds: boolean;
}

class GrammarThread {
  readonly #requests = new Map<number, OpenRequest>();
  /** Compiled grammars by the recipe's key, with and without open requests. */
  readonly #compiled = new RecentMap<KnownGrammar>(MAX_CACHED_GRAMMARS);
  #lengths: TokenLengths | undefined;

  constructor(
    private readonly xgrammar: Xgrammar,
    private readonly compiler: GrammarCompiler,
    private readonly modelStopIds: ReadonlySet<number>,
    private readonly memory: MaskMemory,
    private readonly tokens: readonly Uint8Array[],
    private readonly send: (message: FromGrammarThread) => void,
  ) {}

  async open({ requestId, key, recipe, stopTokenIds, tokenIds }: OpenGrammar): Promise<void> {
    const startMs = performance.now();
    const stopIds = new Set(stopTokenIds.filter((id) => this.modelStopIds.has(id)));
    if (stopIds.size === 0) {
      throw new Refusal("expected a request that the model's end token ends, got one without (ignore_eos?)");
    }
    const known = this.#compiled.get(key);
    const grammar = known ?? (await this.#compile(recipe));
    this.#compiled.set(key, grammar)?.compiled.dispose();
    const matcher = await this.xgrammar.GrammarMatcher.createGrammarMatcher(grammar.compiled, [...stopIds]);
    const stopMask = new Int32Array(this.memory.numWords);
    for (const id of stopTokenIds) stopMask[id >> 5]! |= 1 << (id & 31);
    const bounds = grammar.hasBounds ? new StringBounds(this.tokens, this.#tokenLengths()) : undefined;
    const request: OpenRequest = { matcher, bounds, stopIds, stopMask, guesses: [] };
    await accept(request, tokenIds);
    this.#requests.set(requestId, request);
    const compileMs = performance.now() - startMs;
    this.send({ kind: "opened", requestId, key, compileMs, isFromCache: known !== undefined });
  }

  async #compile(recipe: string): Promise<KnownGrammar> {
    const grammar = grammarOfRecipe(recipe);
    return { compiled: await this.compiler.compileGrammar(grammar), hasBounds: hasSignals(grammar) };
  }

  async masks({ requestId, slot, ticket, tokenIds, hasFirst, draft }: ComputeMasks): Promise<void> {
    const request = this.#requests.get(requestId);
    if (request === undefined) return;
    const { matcher, bounds, stopIds } = request;
    await accept(request, tokenIds);
    if (!hasFirst) await this.#writeMask(request, slot, 0);
    const mark = bounds?.mark();
    const guesses: Guess[] = [];
    let numAccepted = 0;
    for (const id of draft) {
      // Masks after the end of an answer are never requested.
      if (stopIds.has(id) || !matcher.acceptToken(id)) break;
      bounds?.append(id);
      await this.#writeMask(request, slot, ++numAccepted);
      if (bounds !== undefined) guesses.push({ tokenId: id, mark: bounds.mark() });
    }
    if (numAccepted > 0) matcher.rollBack(numAccepted);
    if (mark !== undefined) bounds?.goTo(mark);
    request.guesses = guesses;
    this.memory.finish(slot, 1 + numAccepted, ticket);
  }

  close(requestId: number): void {
    this.#requests.get(requestId)?.matcher.dispose();
    this.#requests.delete(requestId);
  }

  async #writeMask({ matcher, bounds, stopMask }: OpenRequest, slot: number, index: number): Promise<void> {
    const withSignals = await matcher.getNextTokenBitmask();
    bounds?.restrict(withSignals);
    const mask = withSignals.subarray(0, this.memory.numWords);
    const isNothing = mask.every((word) => word === 0);
    const isOnlyStop = mask.every((word, i) => (word & ~stopMask[i]!) === 0);
    this.memory.setMask(slot, index, mask, isNothing ? NOTHING : isOnlyStop ? ONLY_STOP : 0);
  }

  #tokenLengths(): TokenLengths {
    this.#lengths ??= new TokenLengths(this.tokens);
    return this.#lengths;
  }
}

/**
 * Accepts tokens chosen under masks, for good. Bounds must see each position: those of accepted drafts are known, and
 * the next mask shows those after the last token.
 */
async function accept(request: OpenRequest, tokenIds: readonly number[]): Promise<void> {
  const { matcher, bounds } = request;
  let numGuessed = 0;
  for (const [index, id] of tokenIds.entries()) {
    if (!matcher.acceptToken(id)) throw new OwnFault(`expected a token that the mask allows, got ${id}`);
    if (bounds === undefined) continue;
    bounds.append(id);
    const guess = request.guesses[index];
    if (numGuessed === index && guess?.tokenId === id) {
      bounds.goTo(guess.mark);
      numGuessed++;
    } else if (index < tokenIds.length - 1) bounds.restrict(await matcher.getNextTokenBitmask());
  }
  if (tokenIds.length > 0) request.guesses = [];
}

async function run({ modelPath, shape, memory: buffer, wakeWord, port }: GrammarThreadData): Promise<void> {
  const memory = new MaskMemory(shape, wakeWord, buffer);
  const send = (message: FromGrammarThread) => {
    port.postMessage(message);
    memory.announce();
  };
  let printed = "";
  const xgrammar = await loadXgrammar((text) => {
    printed += `${text}\n`;
  });
  const { bytes, stopIds } = readTokenBytes(modelPath);
  const tokens = Array.from({ length: 32 * memory.numWords }, (_, id) => bytes[id] ?? new Uint8Array());
  const all = [...tokens, ...SIGNAL_TOKENS];
  const tokenizer = await xgrammar.TokenizerInfo.createTokenizerInfo(all, "raw", false, all.length, [...stopIds]);
  const compiler = await xgrammar.GrammarCompiler.createGrammarCompiler(tokenizer, false);
  const thread = new GrammarThread(xgrammar, compiler, stopIds, memory, tokens, send);
  let isBroken = false;
  const handle = async (message: ToGrammarThread): Promise<void> => {
    if (isBroken) return;
    printed = "";
    memory.setBusy(message.requestId);
    try {
      if (message.kind === "open") await thread.open(message);
      else if (message.kind === "masks") await thread.masks(message);
      else thread.close(message.requestId);
    } catch (thrown) {
      // The thread is still usable only if its grammar engine was not reached.
      const isRefusal = thrown instanceof Refusal || thrown instanceof MillraceError;
      isBroken = !isRefusal;
      const problem = reasonOf(printed) ?? (thrown instanceof Error ? thrown.message : String(thrown));
      const record = thrown instanceof MillraceError ? errorToRecord(thrown) : undefined;
      const { requestId } = message;
      send({ kind: "failed", requestId, problem, record, isOurs: thrown instanceof OwnFault, isBroken });
      if (isBroken) closeSoon(port);
    }
    memory.setBusy(0);
  };
  const pending: ToGrammarThread[] = [];
  let isWorking = false;
  const work = async (): Promise<void> => {
    if (isWorking) return;
    isWorking = true;
    for (let message = takeNext(port, pending); message !== undefined; message = takeNext(port, pending)) {
      await handle(message);
    }
    isWorking = false;
  };
  port.on("message", (message: ToGrammarThread) => {
    pending.push(message);
    void work();
  });
}

/** Masks go before compiles, since steps wait for them, but not before the compile of their own grammar. */
function takeNext(port: MessagePort, pending: ToGrammarThread[]): ToGrammarThread | undefined {
  for (let mail = receiveMessageOnPort(port); mail !== undefined; mail = receiveMessageOnPort(port)) {
    pending.push(mail.message as ToGrammarThread);
  }
  const unopened = new Set(pending.flatMap((message) => (message.kind === "open" ? message.requestId : [])));
  const urgent = pending.findIndex(({ kind, requestId }) => kind !== "open" && !unopened.has(requestId));
  return pending.splice(Math.max(0, urgent), 1)[0];
}

/** The engine ends the thread after it has read the last message. */
function closeSoon(port: MessagePort): void {
  port.removeAllListeners("message");
}

/** @example reasonOf('[FATAL] /a/b.cc:902: Unsupported type "strin"\nAborted()') // 'Unsupported type "strin"' */
function reasonOf(printed: string): string | undefined {
  return /\[FATAL\] \S+?:\d+: (.*)/.exec(printed)?.[1];
}

function main(data: GrammarThreadData): void {
  run(data).catch((thrown: unknown) => {
    const problem = thrown instanceof Error ? thrown.message : String(thrown);
    data.port.postMessage({
      kind: "failed",
      requestId: 0,
      problem,
      record: undefined,
      isOurs: true,
      isBroken: true,
    });
    new MaskMemory(data.shape, data.wakeWord, data.memory).announce();
  });
}

if (workerData !== null) main(workerData as GrammarThreadData);
