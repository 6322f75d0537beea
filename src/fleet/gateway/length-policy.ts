/** Creates the policy of answers' lengths from the configuration. The ledger has the answers of earlier processes. */
import { REQUESTS } from "../../gateway/ledger/ledger-tables.js";
import { type EarlierAnswer, LengthPolicy, type LengthRules } from "../../gateway/lengths/length-policy.js";
import type { FleetConfig } from "../config/schema.js";
import { maxTokensField } from "./paid-models.js";
import { perConfig } from "./per-config.js";
import type { PolicyContext } from "./policy-context.js";
import { isNamed, modelsBehind } from "./virtual-price.js";

type ModelOf = (name: string) => string;

/** Reading them takes some hundredths of a second, once. */
const MAX_EARLIER = 20_000;

/** The policy always exists, since a reload may set rules; without rules, a request costs one map look-up. */
export function createLengths(context: PolicyContext): LengthPolicy {
  const { config, models, metrics } = context;
  const modelOf: ModelOf = (name) => models.resolve(name) ?? name;
  return new LengthPolicy({
    rulesOf: perConfig(config, (name, now) => rulesFor(now, name, modelOf)),
    maxTokensFieldOf: maxTokensField(context),
    earlierAnswers: () => earlierAnswers(context, modelOf),
    onAnswer: (name, limit, isTruncated) => metrics.answerEnded(name, limit, isTruncated),
  });
}

/** Resolves a client's name to a model, route or cascade. */
const entryOf = ({ models, routes, cascades }: FleetConfig, asked: string, model: string) =>
  routes.find(isNamed(asked)) ?? cascades.find(isNamed(asked)) ?? models.find(({ name }) => name === model);

/** A name's own rules, with the lowest cap of the models behind it. */
function rulesFor(config: FleetConfig, asked: string, modelOf: ModelOf) {
  const entry = entryOf(config, asked, modelOf(asked));
  if (entry === undefined) return undefined;
  const own: LengthRules | undefined = "maxTokens" in entry ? entry.maxTokens : undefined;
  const behind = new Set(modelsBehind(config, asked).map(modelOf));
  const rulesBehind = config.models.filter(({ name }) => behind.has(name)).map(({ maxTokens }) => maxTokens);
  const caps = [own, ...rulesBehind].flatMap((rules) => rules?.cap ?? []);
  if (own === undefined && caps.length === 0) return undefined;
  return { name: entry.name, rules: { default: own?.default, cap: caps.length === 0 ? undefined : Math.min(...caps) } };
}

/**
 * Answers to requests without a limit, oldest kept row first, because older answers lose weight. Rows of earlier
 * versions do not record whether a request had a limit.
 */
function earlierAnswers({ config, database }: PolicyContext, modelOf: ModelOf): EarlierAnswer[] {
  if (config().ledger === undefined) return [];
  const sql = `SELECT r.seq, r.key, r.tenant, r.asked, r.answers, a.output FROM ledger_attempts a
    JOIN ledger_requests r ON r.seq = a.seq AND r.attempts = a.attempt + 1
    WHERE a.status = 200 AND a.outcome = 'answered' AND a.output > 0 AND a.is_estimated = 0
      AND r.answers > 0 AND r.max_tokens IS NULL
    UNION ALL SELECT seq, key, tenant, asked, answers, attempt_output FROM ${REQUESTS}
    WHERE words IS NOT NULL AND attempt_status = 200 AND attempt_outcome = 'answered' AND attempt_output > 0
      AND attempt_is_estimated = 0 AND answers > 0 AND max_tokens IS NULL
    ORDER BY 1 DESC LIMIT ${MAX_EARLIER}`;
  const rows = database().prepare(sql).all() as {
    readonly key: string;
    readonly tenant: string;
    readonly asked: string;
    readonly answers: number;
    readonly output: number;
  }[];
  return rows.reverse().map(({ key, tenant, asked, answers, output }) => ({
    subject: key === "" ? tenant : key,
    name: entryOf(config(), asked, modelOf(asked))?.name ?? asked,
    outputTokens: output / answers,
  }));
}
