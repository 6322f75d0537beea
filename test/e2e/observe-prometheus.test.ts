/**
 * `millrace observe render`: a real Prometheus reads the rendered files, evaluates every rule, and answers every panel
 * after a load.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { rowsOf } from "../../src/observe/board-rows.js";
import { ruleGroups } from "../../src/observe/rules.js";
import type { Watched } from "../../src/observe/watched.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { ADMIN_KEY, FleetProcess } from "../helpers/fleet-process.js";
import { freePort } from "../helpers/free-port.js";
import { startCollector } from "../helpers/otlp-collector.js";
import { PROMETHEUS, PROMTOOL, rendered } from "../helpers/prometheus.js";
import { startTestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

const ENDED: (() => void)[] = [];
afterAll(() => {
  for (const end of ENDED) end();
});

/** Waits until Prometheus has a count of tokens, or each of the counters given: every job scrapes at its own time. */
async function scraped(url: string, counters = ["millrace:generation_tokens_total"]): Promise<void> {
  for (const counter of counters) {
    const query = new URLSearchParams({ query: `sum(${counter}) > 0` });
    const numFound = async () =>
      ((await (await fetch(`${url}/api/v1/query?${query}`)).json()) as Answer).data.result.length;
    await expect.poll(numFound, { timeout: 20_000, message: counter }).toBe(1);
  }
}

/** Starts a Prometheus on the rendered files, which looks every half second. */
async function startPrometheus(folder: string): Promise<string> {
  const path = join(folder, "prometheus.yml");
  writeFileSync(path, readFileSync(path, "utf8").replaceAll(/: (15|30)s/g, ": 500ms"));
  const port = await freePort();
  mkdirSync(join(folder, "data"));
  const features = "--enable-feature=exemplar-storage";
  const args = [features, `--config.file=${path}`, `--storage.tsdb.path=${join(folder, "data")}`];
  const child = spawn(PROMETHEUS!, [...args, `--web.listen-address=127.0.0.1:${port}`], { stdio: "ignore" });
  ENDED.push(() => child.kill("SIGKILL"));
  const url = `http://127.0.0.1:${port}`;
  const isReady = async () => (await fetch(`${url}/-/ready`).catch(() => undefined))?.status === 200;
  await expect.poll(isReady, { timeout: 30_000 }).toBe(true);
  return url;
}

interface Answer {
  readonly status: string;
  readonly data: {
    readonly result: readonly {
      readonly metric?: { readonly tenant?: string };
      readonly value: readonly [number, string];
    }[];
  };
}

/** Every rule is evaluated, and every query of a panel has a number. */
async function expectWatched(url: string, watched: Watched): Promise<void> {
  const numbers = async (expr: string): Promise<readonly number[]> => {
    const query = expr.replaceAll("$__rate_interval", "1m").replaceAll("$job", watched.job).replaceAll("$model", ".*");
    const answer = (await (await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`)).json()) as Answer;
    expect(answer.status, query).toBe("success");
    return answer.data.result.map(({ value }) => Number(value[1])).filter((value) => !Number.isNaN(value));
  };
  for (const { title, queries } of rowsOf(watched).flatMap(({ panels }) => panels)) {
    for (const { expr } of queries) {
      await expect.poll(() => numbers(expr), { timeout: 20_000, message: `${title}: ${expr}` }).not.toEqual([]);
    }
  }
  const { data } = (await (await fetch(`${url}/api/v1/rules`)).json()) as {
    data: { groups: { rules: { name: string; health: string; lastError?: string }[] }[] };
  };
  const rules = data.groups.flatMap((group) => group.rules);
  expect(rules.map(({ name }) => name)).toEqual(
    ruleGroups(watched).flatMap((group) => group.rules.map(({ alert }) => alert)),
  );
  expect(rules.filter(({ health }) => health !== "ok")).toEqual([]);
}

const MODEL = join(repositoryRoot(), "models/mill-base.gguf");
const again = "Repeat this sentence: the grey fox sleeps under the old bridge near the river. ";

async function load(url: string, count = 6, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  for (let i = 0; i < count; i++) {
    // Repeated text has drafts, and a shared beginning is found in the prefix cache.
    // Of three, one is a stream, whose first token is told apart from the last.
    const body = { prompt: again.repeat(4) + i, max_tokens: 48, temperature: 0, stream: i % 3 === 0 };
    const answer = await fetch(`${url}/v1/completions`, { method: "POST", headers, body: JSON.stringify(body) });
    await answer.arrayBuffer();
    expect(answer.status).toBe(200);
  }
}

test.skipIf(PROMETHEUS === undefined)("a server: a Prometheus answers every panel", async () => {
  await using server = await startTestServer(["--model", MODEL, "--threads", "1"]);
  const targets = [new URL(server.url).host];
  const folder = await rendered("server", "--targets", targets.join());
  const url = await startPrometheus(folder);
  // Rates need two scrapes with requests between them.
  await load(server.url);
  await scraped(url);
  await load(server.url);
  await expectWatched(url, { kind: "server", job: "millrace", targets, ttftSeconds: 0.5 });
});

test.skipIf(PROMETHEUS === undefined)("a fleet of two instances: a Prometheus answers every panel", async () => {
  const options = { threads: 1, "max-num-seqs": 4 };
  await using fleet = await FleetProcess.start({
    ledger: {},
    "data-folder": tempTree({}),
    "api-keys": [
      { tenant: "search", key: "sk-search" },
      { tenant: "ads", key: "sk-ads" },
    ],
    models: [{ name: "m", model: MODEL, instances: 2, price: { input: 1, output: 4 }, options }],
  });
  const targets = [new URL(fleet.url).host];
  const tenantsKeyFile = join(tempTree({ key: "fleet-admin\n" }), "key");
  const folder = await rendered("fleet", "--targets", targets.join(), "--tenants-key-file", tenantsKeyFile);
  expect(execFileSync(PROMTOOL!, ["check", "config", join(folder, "prometheus.yml")], { encoding: "utf8" })).toMatch(
    /SUCCESS/,
  );
  const url = await startPrometheus(folder);
  const loadAll = async () => {
    for (const key of ["sk-search", "sk-ads"]) await load(fleet.url, 3, { authorization: `Bearer ${key}` });
  };
  await loadAll();
  await scraped(url, ["millrace:generation_tokens_total", "millrace_tenant:time_to_first_token_seconds_count"]);
  await loadAll();
  await expectWatched(url, { kind: "fleet", job: "millrace", targets, ttftSeconds: 0.5, tenantsKeyFile });
  const query = 'sum by (tenant) (millrace_tenant:cost_dollars_total{job="millrace-tenants"}) > 0';
  const answer = (await (await fetch(`${url}/api/v1/query?${new URLSearchParams({ query })}`)).json()) as Answer;
  expect(answer.data.result.map(({ metric }) => metric?.tenant).sort()).toEqual(["ads", "search"]);
});

test.skipIf(PROMETHEUS === undefined)("a fleet with traces: a bucket's exemplar leads to a span", async () => {
  await using collector = await startCollector();
  const telemetry = { "otlp-endpoint": collector.url };
  await using fleet = await FleetProcess.start({ models: [{ name: "m", model: MODEL, instances: 1 }], telemetry });
  const targets = [new URL(fleet.url).host];
  const folder = await rendered("fleet", "--targets", targets.join());
  const path = join(folder, "prometheus.yml");
  const config = parse(readFileSync(path, "utf8")) as { scrape_configs: object[] };
  // A trace is for operators.
  const authorization = { credentials: ADMIN_KEY };
  const scrapes = config.scrape_configs.map((scrape) => ({ ...scrape, authorization }));
  writeFileSync(path, stringify({ ...config, scrape_configs: scrapes }));
  const open = await fetch(`${fleet.url}/metrics`, { headers: { accept: "application/openmetrics-text" } });
  expect(open.headers.get("content-type")).toContain("text/plain");
  const url = await startPrometheus(folder);
  await load(fleet.url);
  const query = new URLSearchParams({
    query: "millrace_fleet:time_to_first_byte_seconds_bucket",
    start: String(Date.now() / 1000 - 600),
    end: String(Date.now() / 1000 + 600),
  });
  const traces = async (): Promise<readonly string[]> => {
    const answer = await (await fetch(`${url}/api/v1/query_exemplars?${query}`)).json();
    const { data } = answer as { data: { exemplars: { labels: { trace_id: string } }[] }[] };
    return data.flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels.trace_id));
  };
  await expect.poll(traces, { timeout: 20_000 }).not.toEqual([]);
  const found = await traces();
  // Counters keep their names in that format.
  await scraped(url);
  expect(await fleet.stop()).toBe(0);
  expect(collector.spans().map(({ traceId }) => traceId)).toEqual(expect.arrayContaining([...found]));
});
