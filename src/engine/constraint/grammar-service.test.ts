/**
 * The grammar thread when it hangs, dies or never starts: it is replaced, whoever's work it was fails, and nobody waits
 * for it beyond a bound.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { recipeOf } from "../../../test/helpers/constraint.js";
import { request } from "../../../test/helpers/engine-requests.js";
import { type RandomModel, writeRandomModel } from "../../../test/helpers/random-model.js";
import { grammarOfChoices } from "../../text/grammar/ebnf.js";
import { grammarOfSchema } from "../../text/grammar/json-schema.js";
import { Sequence } from "../step/sequence.js";
import { CompileOrder } from "./compile-order.js";
import { Constraints, type FailedSequence } from "./constraints.js";
import { GrammarLanes } from "./grammar-lanes.js";
import { GrammarService, type LostThread } from "./grammar-service.js";
import type { FromGrammarThread, ToGrammarThread } from "./messages.js";
import { MAX_CACHED_GRAMMARS } from "./recent-map.js";
import { readTokenBytes } from "./token-bytes.js";

/** Takes a minute to compile on a fast machine, and little memory. */
const ENDLESS = `root ::= ${"[a-z]* [^a]* ".repeat(3000)}`;
const GOOD = grammarOfChoices(["abc"]);
const TIMEOUT_MS = 1500;
/** What a step may wait for masks beside others' work, and what a busy machine adds. */
const MOST_STEP_MS = 20 + 300;

const folder = mkdtempSync(join(tmpdir(), "millrace-grammar-service-"));
let model: RandomModel;
let service: GrammarService;
const wakeWord = new Int32Array(new SharedArrayBuffer(4));
const shape = () => ({ numSlots: 4, masksPerSlot: 3, vocabSize: model.numTokens });
beforeAll(() => {
  model = writeRandomModel(join(folder, "model.gguf"), { architecture: "llama", seed: 1 });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function createService(modelPath = model.path): GrammarService {
  service = new GrammarService(modelPath, shape(), TIMEOUT_MS, wakeWord);
  return service;
}

const open = (requestId: number, grammar: string): ToGrammarThread => ({
  kind: "open",
  requestId,
  key: grammar,
  recipe: recipeOf(grammar),
  stopTokenIds: [model.eosTokenId],
  tokenIds: [],
});

/** Looks without ever giving the event loop a turn, as the engine does while it has work. */
function lookUntil(isDone: (messages: readonly FromGrammarThread[], lost: LostThread | undefined) => boolean) {
  const messages: FromGrammarThread[] = [];
  const endMs = performance.now() + 30_000;
  for (;;) {
    const seen = Atomics.load(wakeWord, 0);
    const { messages: more, lost } = service.poll();
    messages.push(...more);
    if (isDone(messages, lost)) return { messages, lost };
    if (performance.now() > endMs) throw new Error("waited 30 s for the grammar thread");
    Atomics.wait(wakeWord, 0, seen, 5);
  }
}

describe("a thread", () => {
  afterEach(() => service.stop());

  test("that hangs is replaced", () => {
    createService().send(open(1, GOOD));
    lookUntil(([first]) => first?.kind === "opened");
    service.send(open(2, ENDLESS));
    const { messages, lost } = lookUntil((_, lost) => lost !== undefined);
    expect(messages).toEqual([]);
    expect(lost).toMatchObject({ requestId: 2, hasWorked: true });
    service.send(open(3, GOOD));
    expect(lookUntil(([first]) => first !== undefined).messages).toMatchObject([{ kind: "opened", requestId: 3 }]);
  });

  test("that dies without a word is replaced", () => {
    createService().send(open(1, GOOD));
    lookUntil(([first]) => first?.kind === "opened");
    // Nothing it could take: it throws where nothing catches.
    service.send(null as never);
    expect(lookUntil((_, lost) => lost !== undefined).lost).toMatchObject({ requestId: 0, hasWorked: true });
    service.send(open(3, GOOD));
    expect(lookUntil(([first]) => first !== undefined).messages).toMatchObject([{ kind: "opened", requestId: 3 }]);
  });

  test("that cannot start says so", () => {
    createService(join(folder, "missing.gguf")).send(open(1, GOOD));
    const { lost } = lookUntil((_, lost) => lost !== undefined);
    expect(lost).toMatchObject({ requestId: 0, hasWorked: false, problem: expect.stringContaining("missing.gguf") });
  });
});

describe("a string whose bounds are counted beside its grammar", () => {
  afterEach(() => service.stop());

  test("has the same masks after tokens one by one, after drafts that came true, and opened in its midst", () => {
    const schema = { type: "array", items: { type: "string", minLength: 9, maxLength: 24 } };
    const idOf = new Map(
      readTokenBytes(model.path).bytes.map((bytes, id) => [Buffer.from(bytes).toString("latin1"), id]),
    );
    // Within the escape no bounds are signalled.
    const output = [...'["\\u'].map((character) => idOf.get(character)!);
    createService();
    const { memory } = service;
    const grammar = grammarOfSchema(schema, "json");
    service.send(open(1, grammar));
    service.send(open(2, grammar));
    service.send({ ...open(3, grammar), tokenIds: output } as ToGrammarThread);
    let ticket = 0;
    const ask = (requestId: number, tokenIds: readonly number[], draft: readonly number[] = []) => {
      ticket++;
      service.send({ kind: "masks", requestId, slot: requestId, ticket, tokenIds, hasFirst: false, draft });
      lookUntil(() => memory.ticket(requestId) === ticket);
      return [...memory.mask(requestId, 0)];
    };
    ask(1, []);
    const oneByOne = output.map((id) => ask(1, [id])).at(-1)!;
    ask(2, []);
    // The last token is chosen behind the drafts.
    ask(2, [output[0]!], output.slice(1, 3));
    expect(ask(2, output.slice(1))).toEqual(oneByOne);
    expect(ask(3, [])).toEqual(oneByOne);
    const isAllowed = (id: number) => (oneByOne[id >> 5]! >>> (id & 31)) & 1;
    expect(output.every((id) => id !== undefined)).toBe(true);
    expect(isAllowed(idOf.get("0")!)).toBe(1);
  });
});

describe("sequences", () => {
  let lanes: GrammarLanes;
  let constraints: Constraints;

  function create(modelPath = model.path, timeoutMs = TIMEOUT_MS): void {
    lanes = new GrammarLanes(modelPath, shape(), timeoutMs);
    constraints = new Constraints(lanes);
  }

  afterEach(() => constraints.close());

  function createSequence(id: number, seat: number, tenant = ""): Sequence {
    const sampling = { maxTokens: 10, stopTokenIds: [model.eosTokenId] };
    const sequence = new Sequence(id, { ...request([1, 2, 3], sampling), tenant }, 1, 0);
    sequence.seat = seat;
    return sequence;
  }

  function look(isDone: (opened: readonly Sequence[], failed: readonly FailedSequence[]) => boolean) {
    const [opened, failed]: [Sequence[], FailedSequence[]] = [[], []];
    const endMs = performance.now() + 60_000;
    while (!isDone(opened, failed)) {
      if (performance.now() > endMs) throw new Error("waited a minute for the grammars");
      constraints.waitForGrammars();
      const news = constraints.poll();
      opened.push(...news.opened);
      failed.push(...news.failed);
    }
    return { opened, failed };
  }

  /** Those of the sequences that a step could compute, and how long it waited to know. */
  function plan(...sequences: readonly Sequence[]) {
    const startMs = performance.now();
    const ready = constraints.ready(
      sequences.map((sequence) => ({ sequence, numNewTokens: sequence.numTokens - sequence.numComputedTokens })),
    );
    return { ready: ready.map(({ sequence }) => sequence), waitedMs: performance.now() - startMs };
  }

  const allowedTexts = (sequence: Sequence): string[] => {
    const { bytes } = readTokenBytes(model.path);
    const { words } = constraints.maskOf(sequence, 0)!;
    return bytes.flatMap((token, id) => ((words[id >> 5]! >>> (id & 31)) & 1 ? [Buffer.from(token).toString()] : []));
  };

  /** Each a grammar of its own. */
  const endless = (name: string) => recipeOf(`${ENDLESS} "${name}"`);

  test("have their masks while another's grammar hangs; that one fails, and is known", () => {
    create();
    const [free, good, bad] = [createSequence(1, 0), createSequence(2, 1), createSequence(3, 2)];
    constraints.add(good, recipeOf(GOOD));
    look((opened) => opened.includes(good));
    while (!plan(free, good).ready.includes(good));
    expect(allowedTexts(good)).toEqual(["a"]);

    constraints.add(bad, recipeOf(ENDLESS));
    while (!lanes.isAt(bad.id)) constraints.poll();
    good.append("a".charCodeAt(0));
    constraints.advance(good);
    while (!plan(free, good).ready.includes(good)) expect(lanes.isAt(bad.id)).toBe(true);
    expect(allowedTexts(good)).toEqual(["b"]);
    const { failed } = look((_, failed) => failed.length > 0);
    expect(failed.map(({ sequence, error }) => [sequence, error.code])).toEqual([[bad, "invalid_grammar"]]);
    constraints.remove(bad);
    expect(constraints.stats.numThreadsReplaced).toBe(1);

    const again = createSequence(4, 3);
    constraints.add(again, recipeOf(ENDLESS));
    expect(constraints.poll().failed).toMatchObject([{ sequence: again, error: { code: "invalid_grammar" } }]);
    constraints.remove(again);
    expect(constraints.poll().failed).toEqual([]);
    expect(constraints.stats.numThreadsReplaced).toBe(1);
  });

  test("whose masks are late sit steps out", () => {
    create();
    const [free, good] = [createSequence(1, 0), createSequence(2, 1)];
    constraints.add(good, recipeOf(GOOD));
    look((opened) => opened.includes(good));
    while (!plan(good).ready.includes(good));
    good.append("a".charCodeAt(0));
    // Nothing computes what is asked for in vain.
    lanes.sendMasks = () => {};
    for (let step = 0; step < 5; step++) {
      const { ready, waitedMs } = plan(free, good);
      expect(ready).toEqual([free]);
      // A step waits for a late mask once.
      expect(waitedMs).toBeLessThan(step === 0 ? MOST_STEP_MS : MOST_STEP_MS - 20);
    }
  });

  test("of other keys have theirs compiled while two attackers' hang", () => {
    create(model.path, 60_000);
    const attackers = ["x", "y"].flatMap((tenant, i) =>
      [0, 1].map((j) => ({ name: `${tenant}${j}`, sequence: createSequence(10 + 2 * i + j, -1, tenant) })),
    );
    for (const { name, sequence } of attackers) constraints.add(sequence, endless(name));
    look(() => lanes.isAt(10));
    const good = createSequence(1, 0, "z");
    constraints.add(good, recipeOf(GOOD));
    const { opened, failed } = look((opened) => opened.length > 0);
    expect(opened).toEqual([good]);
    expect(failed).toEqual([]);
    while (!plan(good).ready.includes(good));
    expect(allowedTexts(good)).toEqual(["a"]);
    good.append("a".charCodeAt(0));
    while (!plan(good).ready.includes(good)) constraints.poll();
    expect(allowedTexts(good)).toEqual(["b"]);
  });

  test("wait for no thread's start where an attacker's is ended: a spare one has started meanwhile", () => {
    create(model.path, 60_000);
    for (const [index, tenant] of ["x", "y"].entries()) {
      constraints.add(createSequence(10 + index, -1, tenant), endless(tenant));
    }
    // The first goes on in the place for what takes long, the second compiles beside it.
    look(() => lanes.isAt(10) && lanes.isAt(11));
    const untilMs = performance.now() + 500;
    look(() => performance.now() > untilMs);
    const { send } = GrammarService.prototype;
    const hadStarted: boolean[] = [];
    vi.spyOn(GrammarService.prototype, "send").mockImplementation(function (this: GrammarService, message) {
      if (message.kind === "open") hadStarted.push(this.isStarted);
      send.call(this, message);
    });
    const good = createSequence(1, 0, "z");
    constraints.add(good, recipeOf(GOOD));
    look((opened) => opened.includes(good));
    vi.restoreAllMocks();
    expect(hadStarted[0]).toBe(true);
    expect(constraints.stats.numThreadsReplaced).toBeGreaterThan(0);
  });

  test("that wait when their key's budget ends are told so, and end nobody's turn", () => {
    create(model.path, 60_000);
    const [running, waiting] = [createSequence(1, 0, "x"), createSequence(2, 1, "y")];
    constraints.add(running, endless("x"));
    look(() => lanes.isAt(running.id));
    constraints.add(waiting, recipeOf(GOOD));
    vi.spyOn(CompileOrder.prototype, "pauseMs").mockImplementation((tenant) => (tenant === "y" ? 12_000 : 0));
    const { failed } = look((_, failed) => failed.length > 0);
    vi.restoreAllMocks();
    expect(failed).toMatchObject([{ sequence: waiting, error: { code: "grammar_budget", retryAfterSeconds: 12 } }]);
    expect([lanes.isAt(running.id), constraints.stats.numThreadsReplaced]).toEqual([true, 0]);
  });

  test("are opened anew where the work of somebody who has left ended their thread", () => {
    create();
    const good = createSequence(1, 0);
    constraints.add(good, recipeOf(GOOD));
    // The thread that compiles for them hangs at what a cancelled request had asked for.
    const lost = { requestId: 99, hasWorked: true, problem: "expected an answer, got none" };
    vi.spyOn(GrammarService.prototype, "poll").mockImplementationOnce(function (this: GrammarService) {
      this.stop();
      return { messages: [], lost };
    });
    const { opened, failed } = look((opened) => opened.length > 0);
    vi.restoreAllMocks();
    expect([opened, failed]).toEqual([[good], []]);
  });

  test("go on where another's work ended their thread", () => {
    create();
    const [good, bad] = [createSequence(1, 0), createSequence(2, 1)];
    for (const sequence of [good, bad]) constraints.add(sequence, recipeOf(GOOD));
    look((opened) => opened.length === 2);
    while (!plan(good).ready.includes(good));
    good.append("a".charCodeAt(0));
    // No mask has allowed this token.
    const rest = { slot: 1, ticket: 99, hasFirst: false, draft: [] };
    lanes.sendMasks({ kind: "masks", requestId: bad.id, tokenIds: ["z".charCodeAt(0)], ...rest });
    const { failed } = look((_, failed) => failed.length > 0);
    expect(failed).toMatchObject([{ sequence: bad, error: { code: "grammar_failed" } }]);
    while (!plan(good).ready.includes(good)) expect(constraints.poll().failed).toEqual([]);
    expect(allowedTexts(good)).toEqual(["b"]);
  });

  test("have a grammar compiled in a turn of its own once more where the thread that computes its masks has forgotten it", () => {
    create();
    const send = vi.spyOn(GrammarService.prototype, "send");
    /**
     * How often the request's grammar was sent to a thread: twice where it was compiled in its turn and then where its
     * masks are.
     */
    const numSent = (id: number) =>
      send.mock.calls.filter(([message]) => message.kind === "open" && message.requestId === id).length;
    const openNew = (id: number, text: string) => {
      const sequence = createSequence(id, -1);
      constraints.add(sequence, recipeOf(grammarOfChoices([text])));
      look((opened) => opened.includes(sequence));
      return sequence;
    };
    const isKnown = (id: number, text: string) => {
      constraints.remove(openNew(id, text));
      return numSent(id) === 1;
    };
    // It stays, so that nobody else's thread takes the place where masks are computed.
    openNew(1, "stays");
    for (let i = 0; i < MAX_CACHED_GRAMMARS - 1; i++) constraints.remove(openNew(100 + i, `text ${i}`));
    // Of a request that leaves before it is opened, the thread uses the grammar all the same.
    const gone = createSequence(2, -1);
    constraints.add(gone, recipeOf(grammarOfChoices(["stays"])));
    constraints.remove(gone);
    expect([numSent(2), isKnown(3, "text 0")]).toEqual([1, true]);
    expect(isKnown(4, "one more")).toBe(false);
    expect([isKnown(5, "stays"), isKnown(6, "text 0"), isKnown(7, "text 1")]).toEqual([true, true, false]);
    send.mockRestore();
  });

  test("that left do not keep the thread at their grammars", async () => {
    create();
    const bad = createSequence(1, 0);
    constraints.add(bad, recipeOf(ENDLESS));
    while (!lanes.isAt(bad.id)) constraints.poll();
    constraints.remove(bad);
    expect(lanes.isBusy).toBe(true);
    await expect.poll(() => lanes.isBusy, { timeout: 20_000 }).toBe(false);
    expect(constraints.stats.numThreadsReplaced).toBe(1);
  });

  test("all fail where no thread can start", () => {
    create(join(folder, "missing.gguf"));
    const sequences = [createSequence(1, 0), createSequence(2, 1)];
    for (const sequence of sequences) constraints.add(sequence, recipeOf(GOOD));
    const { failed } = look((_, failed) => failed.length > 0);
    expect(failed.map(({ sequence, error }) => [sequence, error.code])).toEqual(
      sequences.map((sequence) => [sequence, "grammar_failed"]),
    );
  });

  test("under a grammar that leads nowhere fail by its fault", () => {
    create();
    const bad = createSequence(1, 0);
    constraints.add(bad, recipeOf("root ::= root"));
    const { failed } = look((opened, failed) => opened.length + failed.length > 0);
    if (failed.length === 0) {
      while (!plan(bad).ready.includes(bad)) failed.push(...constraints.poll().failed);
      failed.push(...constraints.stranded([{ sequence: bad, numNewTokens: 1 }]));
    }
    expect(failed).toMatchObject([{ sequence: bad, error: { code: "invalid_grammar", status: 400 } }]);
  });
});
