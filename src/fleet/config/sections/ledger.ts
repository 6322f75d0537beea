/** Keys of the ledger, which records each request and its cost, and of its alerts: `ledger` and `alerts`. */
import { z } from "zod";
import { duration, integer, secret, section } from "../../../core/config-values.js";
import { WEBHOOK_FORMATS } from "../../../gateway/alerts/webhook.js";
import { dollars } from "./prices.js";

const MAX_DAYS = 3650;

const MAX_WEBHOOKS = 16;

const address = (environment: NodeJS.ProcessEnv) =>
  secret(environment)
    .refine((url) => /^https?:\/\//.test(url.reveal()) && URL.canParse(url.reveal()))
    .meta({ title: "the URL of a web server, or env:NAME" });

const format = () => z.enum(WEBHOOK_FORMATS);

/** One webhook, or several with their own keys. */
const webhooks = (environment: NodeJS.ProcessEnv) => {
  const target = section({
    url: address(environment).describe("its URL, or env:NAME"),
    format: format().optional().describe("JSON that it gets (default: webhook-format)"),
    secret: secret(environment).optional().describe("signs the messages to it, or env:NAME (default: webhook-secret)"),
  });
  return z
    .union([address(environment), z.array(target).max(MAX_WEBHOOKS)])
    .meta({ title: "a URL, or a list of webhooks" })
    .transform((written) =>
      Array.isArray(written) ? written : [{ url: written, format: undefined, secret: undefined }],
    );
};

export const ledgerKeys = (environment: NodeJS.ProcessEnv) => ({
  ledger: section({
    "keep-days": integer(1, MAX_DAYS).prefault(30).describe("days for which each request's row is kept"),
    "max-rows": integer(1000, 100_000_000).prefault(1_000_000).describe("requests whose rows are kept at most"),
    "hourly-days": integer(1, MAX_DAYS)
      .prefault(90)
      .describe("days for which sums are kept by the hour, then by the day"),
    "cost-header": z
      .boolean()
      .prefault(false)
      .describe("whether whole answers, which are then held until their end, have their cost in x-millrace-cost"),
  })
    .optional()
    .describe("a record of every request and its cost, in data-folder; fixed at the start"),
  alerts: section({
    webhook: webhooks(environment)
      .prefault([])
      .describe("URL that gets each alert by POST, or env:NAME, or a list of them (default: alerts are only listed)"),
    "webhook-format": format()
      .prefault("millrace")
      .describe("JSON of the webhook: our own, that of Prometheus' Alertmanager, or a message as Slack takes it"),
    "webhook-secret": secret(environment)
      .optional()
      .describe("signs the webhook's messages by HMAC-SHA256, or env:NAME (default: they are not signed)"),
    "min-cost": dollars().prefault("1").describe("dollars above the usual spend of an hour that are worth an alert"),
    "min-requests": integer(1, 1_000_000)
      .prefault(20)
      .describe("requests of an hour below which its shares are not judged"),
    "cool-down": duration().prefault("6h").describe("time for which the same alert is not repeated"),
  })
    .optional()
    .describe(
      "alerts on unusual spend, tokens, errors, refusals, retries and cache hits; needs ledger; fixed at the start",
    ),
});
