/** The sampling of answers in the real proxy, with its administration and the ledger, in front of one server. */
import { pino } from "pino";
import { adminHandler } from "../../src/fleet/admin.js";
import { parseConfig } from "../../src/fleet/config/read-config.js";
import { authorizeBy } from "../../src/fleet/gateway/authorize.js";
import { Ledger } from "../../src/fleet/gateway/ledger.js";
import { QualityPart } from "../../src/fleet/gateway/quality-part.js";
import { AlertStore } from "../../src/gateway/alerts/alert-store.js";
import type { Policy } from "../../src/gateway/pipeline.js";
import { privatePatterns, runCheckJob } from "../../src/gateway/quality/check-job.js";
import type { JobRunner } from "../../src/gateway/quality/sample-checker.js";
import { openDatabase } from "../../src/gateway/store/database.js";
import { sideOf } from "../../src/gateway/store/side-connection.js";
import { adminTarget } from "./admin-target.js";
import type { Json } from "./json.js";
import { type Behaviour, startFleet } from "./stand-in.js";

const fileOf = (quality: string) => `
admin-key: boss
ledger: {}
alerts: {}
quality: ${quality}
api-keys:
  - {tenant: search, key: sk-search}
  - {tenant: shop, key: sk-shop}
models:
  - {name: m, attach: [{url: "http://127.0.0.1:1"}]}
`;

/** The thread's work, in this one: tests need no compiled files, and can stop it. */
function inProcess(): JobRunner {
  const patterns = privatePatterns([]);
  return { run: (job) => runCheckJob(job, patterns), end: () => {} };
}

interface Started {
  readonly quality?: string;
  readonly runner?: JobRunner;
  readonly folder?: string;
  readonly random?: () => number;
  readonly epochMs?: () => number;
  readonly sessionHeader?: () => string;
  /** Behind the sampling. */
  readonly inner?: readonly Policy[];
}

/** A gateway that samples, in front of a server that behaves as a test says. */
export async function startSampled(
  behaviour: Behaviour,
  {
    quality = "{sample: 100%}",
    runner = inProcess(),
    folder,
    random = () => 0,
    inner = [],
    epochMs,
    sessionHeader = () => "x-session-id",
  }: Started = {},
) {
  const config = parseConfig(fileOf(quality), "millrace.yaml", {});
  const logger = pino({ level: "silent" });
  const database = openDatabase(folder);
  const authorize = authorizeBy(config.apiKeys);
  const modelOf = (name: string) => name;
  const ledger = new Ledger({ config: () => config, database: () => database, logger, modelOf, authorize });
  ledger.open();
  const version = { now: "aaaaaaaaaaaaaaaa" };
  const part = new QualityPart({
    config,
    database: () => database,
    logger,
    modelOf,
    versionOf: () => version.now,
    sessionHeader,
    authorize,
    runner,
    random,
    ...(epochMs === undefined ? {} : { epochMs }),
  });
  const admin = adminHandler(adminTarget([part.adminApp()], () => config.adminKey));
  const fleet = await startFleet([behaviour], {
    proxy: {
      authorize,
      policies: [...ledger.policies(), ...part.policies(), ...inner],
      handleOther: (...request) => part.handle(...request) || admin(...request),
    },
  });
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    await fleet.stop();
    await part.close();
    await ledger.close();
    await sideOf(database).close();
    database.close();
  };
  const sent = async (path: string, body: object | undefined, key: string, method = body ? "POST" : "GET") => {
    const answer = await fetch(`${fleet.proxy.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, id: answer.headers.get("x-request-id") ?? "", text: await answer.text() };
  };
  return {
    part,
    version,
    alerts: () => new AlertStore(database).page(100, 10).map(({ alert }) => alert),
    proxy: fleet.proxy,
    stop,
    [Symbol.asyncDispose]: stop,
    numSamples: () => [...(part.counts()?.samples.values() ?? [])].reduce((sum, each) => sum + each, 0),
    ask: (content: string, more: object = {}, key = "sk-search") =>
      sent("/v1/chat/completions", { model: "m", messages: [{ role: "user", content }], ...more }, key),
    post: (path: string, body: object) => sent(path, body, "sk-search"),
    feedback: (body: object, key = "sk-search") => sent("/v1/feedback", body, key),
    admin: async (path: string, method?: string) =>
      JSON.parse((await sent(`/admin/quality${path}`, undefined, "boss", method)).text) as Json,
  };
}
