/** `millrace route train`: collects, labels, trains, and measures on held-out prompts. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { isHeldOut, readPrompts } from "../distill/prompts.js";
import { FEATURE_NAMES } from "../gateway/cascade/features.js";
import { ROUTER_VERSION, type RouterFile, readRouterFile } from "../gateway/cascade/router-file.js";
import { trainRouter } from "../gateway/cascade/train-router.js";
import { openModelClient } from "./ask-model.js";
import { byChecks, byEquality, byJudge, type Label, labelFor, type Qualities } from "./labels.js";
import { collectPairs, filesOf, openPairs, type Pair, type PairTerms, pairsOf, termsOf } from "./pairs.js";
import { type CascadeFigures, figuresOf, type Prices, pairFeatures } from "./report.js";

export interface TrainOptions extends PairTerms {
  readonly prompts: string;
  readonly out: string;
  readonly apiKey: string | undefined;
  readonly label: Label | undefined;
  readonly judgeModel: string | undefined;
  readonly maxLoss: number;
  readonly holdoutShare: number;
  readonly auditShare: number;
  readonly prices: Prices | undefined;
}

export interface RouteReport {
  readonly router: string;
  readonly terms: PairTerms;
  readonly figures: CascadeFigures;
}

/** With fewer examples a router learns little, and its floor would be 1. */
const MIN_PAIRS = 100;

const labelsPath = (folder: string): string => join(folder, "qualities.json");
const routerPath = (folder: string): string => join(folder, "router.json");

/** The labels that a report needs, beside the answers. */
interface Labelled {
  readonly prompts: string;
  readonly label: Label;
  readonly holdoutShare: number;
  /** Scores by prompt id. */
  readonly qualities: Readonly<Record<string, Qualities>>;
}

export async function trainRoute(
  options: TrainOptions,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<RouteReport> {
  const { url, small, large, temperature, maxTokens, seed, concurrency, out, maxLoss, holdoutShare } = options;
  const prompts = readPrompts(options.prompts);
  const terms = { url, small, large, temperature, maxTokens, seed, concurrency };
  const client = openModelClient(url, options.apiKey);
  try {
    const files = openPairs(out, terms);
    await collectPairs(client, prompts, terms, files, startStage, signal);
    const answered = pairsOf(prompts, files);
    assertEnough(answered);
    const label = options.label ?? labelFor(answered);
    const labels = await labelled(label, answered);
    // A pair without a verdict says nothing about either model.
    const pairs = answered.filter((_, index) => labels[index] !== undefined);
    const qualities = labels.filter((quality) => quality !== undefined);
    const byId = Object.fromEntries(pairs.map(({ prompt }, index) => [prompt.id, qualities[index]!]));
    const saved: Labelled = { prompts: options.prompts, label, holdoutShare, qualities: byId };
    writeFileSync(labelsPath(out), `${JSON.stringify(saved)}\n`);
    writeFileSync(routerPath(out), `${JSON.stringify(fitted(pairs, qualities, label), null, 1)}\n`);
    return reportRoute({ out, floor: undefined, auditShare: options.auditShare, prices: options.prices });
  } finally {
    await client.close();
  }

  async function labelled(label: Label, pairs: readonly Pair[]): Promise<readonly (Qualities | undefined)[]> {
    if (label === "check") return byChecks(pairs);
    if (label === "equal") return byEquality(pairs);
    if (options.judgeModel !== undefined) return byJudge(pairs, client, options.judgeModel, startStage, signal);
    throw new MillraceError("invalid_option", "expected --judge-model beside --label judge, got none");
  }

  function fitted(pairs: readonly Pair[], qualities: readonly Qualities[], label: Label): RouterFile {
    const examples = pairs.flatMap((pair, index) => {
      const { small: ofSmall, large: ofLarge } = qualities[index]!;
      if (isHeldOut(pair.prompt, holdoutShare)) return [];
      return [{ features: pairFeatures(pair), isAsGood: Number(ofSmall >= ofLarge) }];
    });
    const { logistic, isotonic, floor } = trainRouter(examples, maxLoss);
    const trained = {
      numPairs: examples.length,
      numHeldOut: pairs.length - examples.length,
      label,
      at: new Date().toISOString(),
    };
    const features = [...FEATURE_NAMES];
    const file = { version: ROUTER_VERSION, small, large, features, logistic, isotonic, floor, maxLoss, trained };
    return file as unknown as RouterFile;
  }
}

function assertEnough(pairs: readonly Pair[]): void {
  if (pairs.length >= MIN_PAIRS) return;
  const message = `expected at least ${MIN_PAIRS} prompts that both models answer, got ${pairs.length}`;
  throw new MillraceError("invalid_option", message, { hint: "300 or more make a useful router" });
}

export interface ReportOptions {
  /** The training's folder. */
  readonly out: string;
  /** undefined: the router's own floor */
  readonly floor: number | undefined;
  readonly auditShare: number;
  readonly prices: Prices | undefined;
}

/** Measures a trained router on the held-out prompts of its folder. Throws file_unreadable. */
export function reportRoute({ out, floor, auditShare, prices }: ReportOptions): RouteReport {
  const terms = termsOf(out);
  const router = readRouterFile(routerPath(out));
  const { prompts, holdoutShare, qualities } = readLabels(out);
  const heldOut = pairsOf(readPrompts(prompts), filesOf(out)).filter(
    ({ prompt }) => isHeldOut(prompt, holdoutShare) && qualities[prompt.id] !== undefined,
  );
  if (heldOut.length === 0) {
    throw new MillraceError("invalid_option", "expected held-out prompts, got none", { hint: "raise --holdout-share" });
  }
  const ofItems = heldOut.map(({ prompt }) => qualities[prompt.id]!);
  const figures = figuresOf(heldOut, ofItems, router, floor ?? router.floor, terms, auditShare, prices);
  return { router: routerPath(out), terms, figures };
}

function readLabels(folder: string): Labelled {
  try {
    return JSON.parse(readFileSync(labelsPath(folder), "utf8")) as Labelled;
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected the labels of millrace route train in ${folder}, got none`, {
      hint: "run millrace route train to its end",
      cause,
    });
  }
}
