/** The gateway's proxy in front of one server, in a separate process that ends with its parent. */
import { createLogger } from "../../core/log.js";
import { DEFAULT_PROXY_LIMITS, DEFAULT_PROXY_TIMEOUTS } from "../../fleet/proxy/options.js";
import { startProxy } from "../../fleet/proxy/proxy.js";
import { DEFAULT_ROUTING } from "../../fleet/routing/router.js";
import type { Upstream, UpstreamPool } from "../../fleet/upstream/upstream.js";

const [url, model] = process.argv.slice(2) as [string, string];
const upstream: Upstream = {
  id: `${model}-0`,
  model,
  engine: "openai",
  state: "ready",
  isComing: false,
  starts: 1,
  metrics: undefined,
  target: { url, apiKey: undefined, modelName: undefined },
  capacity: { seats: undefined, kvTokens: undefined, blockSize: undefined },
};
const pool: UpstreamPool = {
  models: () => [model],
  upstreams: (name) => (name === model ? [upstream] : []),
  onChange: () => () => {},
  reportFailure: async () => {},
};
const proxy = await startProxy({
  pool,
  host: "127.0.0.1",
  port: 0,
  logger: createLogger("warn"),
  routing: () => DEFAULT_ROUTING,
  authorize: () => ({ tenant: "" }),
  limits: DEFAULT_PROXY_LIMITS,
  timeouts: DEFAULT_PROXY_TIMEOUTS,
});
process.on("disconnect", () => process.exit(0));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
process.send?.(proxy.port);
