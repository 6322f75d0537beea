/**
 * The costs of a student and its teacher: traffic from the gateway's ledger or the command line; given, recorded or
 * planned prices.
 */
import { MillraceError } from "../../core/errors.js";
import { QUALITY } from "../../plan/data/constants.js";
import type { ApiPrice } from "../../plan/data/prices.js";
import { readPlannedModel } from "../../plan/read-model.js";
import {
  DAYS_PER_MONTH,
  type MonthlyCost,
  type MonthlyTraffic,
  plannedCost,
  pricedCost,
  type Replacement,
  replacementOf,
} from "../../plan/replacement.js";
import type { PlanRequest } from "../../plan/request.js";
import type { TaskResult } from "../../quality/run-task.js";
import type { Json } from "../output/format.js";
import type { AdminClient } from "../process/admin-client.js";
import { requestOf } from "./plan-request.js";

export interface CostFlags {
  readonly requestsPerDay?: number;
  readonly hardware: string;
  readonly price?: number;
  readonly teacherPrice?: ApiPrice;
  readonly studentPrice?: ApiPrice;
  readonly trainingCost?: number;
}

/** A month of one model in a gateway's ledger. */
export interface Recorded {
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** undefined if some answers have no price */
  readonly usd: number | undefined;
}

const DAY_MS = 86_400_000;

/**
 * The last month of a model. A model with a younger first request is assumed to continue as it began.
 *
 * @returns undefined if the gateway keeps no ledger, or has less than a day of the model's requests
 */
export async function recordedMonth(client: AdminClient, model: string, nowMs: number): Promise<Recorded | undefined> {
  const monthMs = DAYS_PER_MONTH * DAY_MS;
  const query = new URLSearchParams({ model, from: new Date(nowMs - monthMs).toISOString(), group_by: "hour" });
  const answer = await client.ask("GET", `/ledger/spend?${query}`).catch((thrown: unknown) => {
    if (thrown instanceof MillraceError && thrown.code === "not_found") return undefined;
    throw thrown;
  });
  // Oldest hour first.
  const rows = (answer?.data as readonly Json[] | undefined) ?? [];
  const of = (name: string): number => rows.reduce((sum, row) => sum + Number(row[name] ?? 0), 0);
  const requests = of("requests");
  const elapsedMs = requests === 0 ? 0 : nowMs - Date.parse(String(rows[0]!.hour));
  if (elapsedMs < DAY_MS) return undefined;
  const months = Math.min(1, elapsedMs / monthMs);
  const usd = of("unpriced") === 0 && of("cost") > 0 ? of("cost") / months : undefined;
  const inputTokens = of("fresh") + of("cache_write") + of("cache_read");
  return {
    requests: requests / months,
    inputTokens: inputTokens / requests,
    outputTokens: of("output") / requests,
    usd,
  };
}

/** Mean tokens of answered items. */
interface MeanTokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export function meanTokens(results: readonly TaskResult[]): MeanTokens {
  const items = results.flatMap(({ items: each }) => each);
  const sum = (of: (item: (typeof items)[number]) => number): number =>
    items.reduce((total, item) => total + of(item), 0);
  const count = Math.max(1, items.length);
  return {
    inputTokens: sum(({ numPromptTokens }) => numPromptTokens) / count,
    outputTokens: sum(({ numOutputTokens }) => numOutputTokens) / count,
  };
}

/**
 * Both models' tokens for the same requests. The student's tokens are its own tokenizer's, by the ratio in the items.
 */
export function trafficOf(
  requestsPerDay: number | undefined,
  recorded: Recorded | undefined,
  teacher: MeanTokens,
  student: MeanTokens,
): { readonly teacher: MonthlyTraffic; readonly student: MonthlyTraffic } | undefined {
  const requestsPerMonth = requestsPerDay === undefined ? recorded?.requests : requestsPerDay * DAYS_PER_MONTH;
  if (requestsPerMonth === undefined) return undefined;
  const own = recorded ?? teacher;
  const scaled = (tokens: number, mine: number, its: number): number => (its === 0 ? mine : (tokens * mine) / its);
  return {
    teacher: { requestsPerMonth, inputTokens: own.inputTokens, outputTokens: own.outputTokens },
    student: {
      requestsPerMonth,
      inputTokens: scaled(own.inputTokens, student.inputTokens, teacher.inputTokens),
      outputTokens: scaled(own.outputTokens, student.outputTokens, teacher.outputTokens),
    },
  };
}

export interface Sides {
  /** A model that plans can read; undefined: a model behind a URL, or recorded answers. */
  readonly teacherPath: string | undefined;
  readonly studentPath: string;
  readonly teacherTokens: MeanTokens;
  readonly studentTokens: MeanTokens;
}

/** @returns the costs, or a text that names the missing figure and how to get it */
export async function replacementCost(
  flags: CostFlags,
  { teacherPath, studentPath, teacherTokens, studentTokens }: Sides,
  recorded: Recorded | undefined,
): Promise<Replacement | string> {
  const traffic = trafficOf(flags.requestsPerDay, recorded, teacherTokens, studentTokens);
  if (traffic === undefined)
    return "unknown: give --requests-per-day, or the gateway whose ledger has a day of the requests";
  let machine: PlanRequest | undefined;
  const planned = async (model: string, own: MonthlyTraffic): Promise<MonthlyCost | undefined> => {
    // The machine is detected once for both.
    machine ??= await requestFor(model, flags);
    return plannedCost({ ...machine, model: await readPlannedModel(model) }, own);
  };
  const given = (price: ApiPrice | undefined, own: MonthlyTraffic): MonthlyCost | undefined =>
    price && pricedCost(price, own);
  const ledger = (): MonthlyCost | undefined =>
    recorded?.usd === undefined ? undefined : scaledTo(traffic.teacher, recorded, recorded.usd);
  const teacher =
    given(flags.teacherPrice, traffic.teacher) ??
    ledger() ??
    (teacherPath === undefined ? undefined : await planned(teacherPath, traffic.teacher));
  if (teacher === undefined)
    return teacherPath === undefined
      ? "unknown: give --teacher-price, as the teacher is no file that a plan can read"
      : "unknown: the teacher does not fit --hardware";
  const student = given(flags.studentPrice, traffic.student) ?? (await planned(studentPath, traffic.student));
  if (student === undefined) return "unknown: the student does not fit --hardware";
  return replacementOf(teacher, student, flags.trainingCost);
}

/** Scales the ledger's recorded cost to a month's number of requests. */
const scaledTo = ({ requestsPerMonth }: MonthlyTraffic, { requests }: Recorded, usd: number): MonthlyCost => ({
  usdPerMonth: (usd * requestsPerMonth) / requests,
  source: "the gateway's ledger",
});

async function requestFor(model: string, { hardware, price }: CostFlags): Promise<PlanRequest> {
  const usual = { inputTokens: 1, outputTokens: 1, objective: "cost", prefixShare: 0, task: "general" } as const;
  const minQuality = QUALITY.smallestRecovery.value;
  const { request } = await requestOf({
    ...usual,
    model,
    hardware,
    minQuality,
    ...(price === undefined ? {} : { price }),
  });
  return request;
}
