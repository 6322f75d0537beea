/** Makes the policy of answers' lengths from the configuration. Answers of earlier processes are read from the ledger. */
import { type EarlierAnswer, LengthPolicy } from "../../gateway/lengths/length-policy.js";
import type { FleetConfig } from "../config/schema.js";
import { maxTokensField } from "./paid-models.js";
import { perConfig } from "./per-config.js";
import type { PolicyContext } from "./policy-context.js";

/** Reading them takes some hundredths of a second, once. */
const MAX_EARLIER = 20_000;

/** The policy is always there, since a reload may set rules; without rules it costs a request a look at a map. */
export function createLengths(context: PolicyContext): LengthPolicy {
  const { config, models, metrics } = context;
  return new LengthPolicy({
    rulesOf: perConfig(config, (name, now) => rulesFor(now, name, models.resolve(name) ?? name)),
    maxTokensFieldOf: maxTokensField(context),
    earlierAnswers: () => earlierAnswers(context),
    onAnswer: (name, limit, isTruncated) => metrics.answerEnded(name, limit, isTruncated),
  });
}

function rulesFor({ models, routes }: FleetConfig, asked: string, model: string) {
  const route = routes.find(({ name, aliases }) => name === asked || aliases.includes(asked));
  const { name, maxTokens: rules } = route ?? models.find((each) => each.name === model) ?? { name: asked };
  return rules === undefined ? undefined : { name, rules };
}

/** From the oldest of the latest on, since older ones lose weight. */
function earlierAnswers({ config, database }: PolicyContext): EarlierAnswer[] {
  if (config().ledger === undefined) return [];
  const sql = `SELECT r.key, r.tenant, r.asked, a.model, a.output FROM ledger_attempts a
    JOIN ledger_requests r ON r.seq = a.seq
    WHERE a.status = 200 AND a.outcome = 'answered' AND a.output > 0 AND a.is_estimated = 0
    ORDER BY a.seq DESC LIMIT ${MAX_EARLIER}`;
  const rows = database().prepare(sql).all() as {
    readonly key: string;
    readonly tenant: string;
    readonly asked: string;
    readonly model: string;
    readonly output: number;
  }[];
  return rows.reverse().flatMap(({ key, tenant, asked, model, output: outputTokens }) => {
    const subject = key === "" ? tenant : key;
    return [...new Set([model, asked])].map((name) => ({ subject, name, outputTokens }));
  });
}
