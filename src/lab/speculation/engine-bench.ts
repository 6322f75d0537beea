/**
 * Measures drafts on the user's requests: alternates an engine without drafts and one with the candidate's, in this
 * process.
 */
import { openSteppedEngine, type SteppedEngine } from "../../bench/engine/draft-engines.js";
import { type Run, runPair, runRequests } from "../../bench/engine/drafts-bench.js";
import { toMillraceError } from "../../core/errors.js";
import type { StartStage } from "../../core/stages.js";
import { checkRequest } from "../../engine/admission.js";
import { type EngineRequest, GREEDY_TEMPERATURE } from "../../engine/api/request.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import type { Candidate } from "./candidates.js";
import type { Cell, CellMeasured, DraftsBench, Look, Measured } from "./search.js";

/** own: each request keeps its own temperature. */
export type Temperatures = "own" | readonly number[];

export interface EngineBenchSettings {
  readonly modelPath: string;
  readonly numThreads: number;
  /** Concurrent requests. */
  readonly concurrency: number;
  /** Most requests of a cell in a round. */
  readonly perRound: number;
  readonly temperatures: Temperatures;
}

/** One request's answer without drafts. */
export interface PlainAnswer {
  readonly tokens: readonly number[];
  readonly decodingMs: number;
}

/** A cell with its requests. */
export interface RequestCell extends Cell {
  readonly requests: readonly EngineRequest[];
}

/** Requests between two reports of progress. */
const CHUNK = 16;

export class EngineBench {
  private constructor(
    private readonly settings: EngineBenchSettings,
    private readonly plain: SteppedEngine,
    private readonly maxModelLen: number,
    private readonly startStage: StartStage,
    private readonly signal: AbortSignal,
  ) {}

  /** @param requests all requests to measure. Throws the errors of opening the model. */
  static async open(
    settings: EngineBenchSettings,
    requests: readonly EngineRequest[],
    startStage: StartStage,
    signal: AbortSignal,
  ): Promise<EngineBench> {
    const { modelPath, numThreads, concurrency } = settings;
    const stage = startStage("engine");
    const maxModelLen = Math.max(...requests.map(({ promptIds, sampling }) => promptIds.length + sampling.maxTokens));
    const plain = await openSteppedEngine(modelPath, numThreads, concurrency, maxModelLen, NO_SPECULATION);
    const { architecture, weightType, isa } = plain.core.info;
    stage.done(`${architecture}, ${weightType}, ${isa}`);
    return new EngineBench(settings, plain, maxModelLen, startStage, signal);
  }

  /** Throws the error of the first request that the engine refuses. */
  async answers(requests: readonly EngineRequest[]): Promise<PlainAnswer[]> {
    const { temperatures, concurrency } = this.settings;
    const [temperature] = temperatures === "own" ? [] : temperatures;
    const stage = this.startStage("answers");
    const all: PlainAnswer[] = [];
    for (let start = 0; start < requests.length; start += CHUNK) {
      this.signal.throwIfAborted();
      const chunk = requests.slice(start, start + CHUNK).map((request) => at(request, temperature));
      for (const request of chunk) checkRequest(request, this.plain.core.info);
      const { answers } = await runRequests(this.plain.core, chunk, concurrency);
      all.push(...answers.map(({ tokens, firstMs, lastMs }) => ({ tokens, decodingMs: lastMs - firstMs })));
      stage.update(`${all.length} of ${requests.length}`);
    }
    stage.done(`${all.length} requests, without drafts`);
    return all;
  }

  /** A bench for these cells. A candidate that does not start is a result; any other failure is an error. */
  on(cells: readonly RequestCell[]): DraftsBench {
    return { measure: (candidate, numRounds, look) => this.#measure(cells, candidate, numRounds, look) };
  }

  close(): Promise<void> {
    return this.plain.close();
  }

  async #measure(
    cells: readonly RequestCell[],
    candidate: Candidate,
    numRounds: number,
    look: Look,
  ): Promise<Measured> {
    const { modelPath, numThreads, concurrency } = this.settings;
    let drafting: SteppedEngine;
    try {
      drafting = await openSteppedEngine(modelPath, numThreads, concurrency, this.maxModelLen, candidate.config);
    } catch (thrown) {
      return { problem: toMillraceError(thrown).message };
    }
    const stage = this.startStage(LOOKS[look]);
    try {
      const tallies = cells.map(() => new Tally());
      // Round 0 warms up: the drafter learns, and the engine learns the cost of its drafts.
      for (let round = 0; round <= numRounds; round++) {
        for (const [index, cell] of cells.entries()) {
          this.signal.throwIfAborted();
          const before = drafting.core.stats().speculation;
          const requests = this.#requestsOf(cell, round);
          const runs = await runPair(this.plain.core, drafting.core, requests, concurrency, round);
          if (round > 0) tallies[index]!.add(runs, before, drafting.core.stats().speculation);
        }
        stage.update(`${candidate.name}: round ${round} of ${numRounds}`);
      }
      stage.done(candidate.name);
      return { cells: tallies };
    } finally {
      await drafting.close();
    }
  }

  /**
   * Each round continues where the one before ended. Once all requests had their turn, a new salt hides their earlier
   * answers from the drafters, which would copy them.
   */
  #requestsOf({ requests, temperature }: RequestCell, round: number): EngineRequest[] {
    const numRequests = Math.min(this.settings.perRound, requests.length);
    return Array.from({ length: numRequests }, (_, i) => {
      const turn = round * numRequests + i;
      const cacheSalt = `${temperature}, pass ${Math.floor(turn / requests.length)}`;
      return { ...requests[turn % requests.length]!, cacheSalt };
    });
  }
}

const LOOKS: Readonly<Record<Look, string>> = {
  first: "first look",
  closer: "closer look",
  again: "again",
  "again, closer": "again, closer",
};

/** @param temperature undefined: the request's own */
function at(request: EngineRequest, temperature: number | undefined): EngineRequest {
  return temperature === undefined ? request : { ...request, sampling: { ...request.sampling, temperature } };
}

/** A request with its class and its decoding time without drafts. */
export interface WeighedRequest {
  readonly request: EngineRequest;
  readonly className: string;
  readonly decodingMs: number;
}

/** Classes × temperatures; all temperatures of a list are equally frequent. */
export function cellsOf(requests: readonly WeighedRequest[], temperatures: Temperatures): RequestCell[] {
  const total = requests.reduce((sum, { decodingMs }) => sum + decodingMs, 0);
  const variants = requests.flatMap(({ request, className, decodingMs }) => {
    if (temperatures !== "own") {
      const share = decodingMs / total / temperatures.length;
      return temperatures.map((each) => ({ request: at(request, each), className, temperature: String(each), share }));
    }
    const isGreedy = request.sampling.temperature < GREEDY_TEMPERATURE;
    return [{ request, className, temperature: isGreedy ? "0" : "> 0", share: decodingMs / total }];
  });
  const cells = new Map<string, RequestCell & { requests: EngineRequest[] }>();
  for (const { request, className, temperature, share } of variants) {
    const key = JSON.stringify([className, temperature]);
    const cell = cells.get(key) ?? { className, temperature, share: 0, requests: [] };
    cells.set(key, { ...cell, share: cell.share + share, requests: [...cell.requests, request] });
  }
  return [...cells.values()];
}

type Counts = Pick<ReturnType<SteppedEngine["core"]["stats"]>["speculation"], "numDraftTokens" | "numAcceptedTokens">;

/** Adds the runs of a cell. */
class Tally implements CellMeasured {
  readonly ratios: number[] = [];
  numDraftTokens = 0;
  numAcceptedTokens = 0;
  numTokens = 0;
  numSteps = 0;

  add({ plain, drafting }: { readonly plain: Run; readonly drafting: Run }, before: Counts, after: Counts): void {
    const [plainMs, draftingMs] = [plain.times.decodingMs, drafting.times.decodingMs];
    // Answers of one token have no decoding time, with drafts or without.
    this.ratios.push(plainMs > 0 && draftingMs > 0 ? plainMs / draftingMs : 1);
    this.numDraftTokens += after.numDraftTokens - before.numDraftTokens;
    this.numAcceptedTokens += after.numAcceptedTokens - before.numAcceptedTokens;
    for (const { tokens, numSteps } of drafting.answers) {
      this.numTokens += Math.max(0, tokens.length - 1);
      this.numSteps += Math.max(0, numSteps - 1);
    }
  }
}
