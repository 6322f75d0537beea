/**
 * Files and batches in a fleet: their lines go through the proxy and take the seats that interactive clients leave
 * free.
 */
import { join } from "node:path";
import { BACKGROUND_HEADER } from "../../core/background.js";
import type { ModelLoad } from "../../gateway/batches/pace.js";
import { BatchService, type BatchServiceOptions, type BatchSettings } from "../../gateway/batches/service.js";
import { assertMayUse } from "../../gateway/tenants/model-access.js";
import type { FleetConfig } from "../config/schema.js";
import type { RunningProxy } from "../proxy/proxy.js";
import { modelOf } from "../proxy/request-terms.js";
import type { UpstreamPool } from "../upstream/upstream.js";
import { HandedLines, type HandedPrices } from "./handed-lines.js";
import type { HandedPolicies } from "./policies.js";

interface FleetBatchesOptions extends Pick<BatchServiceOptions, "database" | "authorize" | "callerOf" | "logger"> {
  readonly dataFolder: string;
  readonly config: () => FleetConfig;
  readonly pool: UpstreamPool;
  readonly prices: HandedPrices;
  /** Resolves a name to a model. */
  readonly nameOf: (name: string) => string;
  /** Names that do not stand for a single model. */
  readonly virtualModels: () => readonly string[];
  readonly proxy: () => RunningProxy;
  /** Undefined until the policies exist. */
  readonly handed: () => HandedPolicies | undefined;
}

export function fleetBatches(options: FleetBatchesOptions): BatchService {
  const { dataFolder, config, pool, prices, nameOf, proxy, handed: policies, ...rest } = options;
  return new BatchService({
    ...rest,
    nameOf,
    handed: new HandedLines({ config, pool, prices, nameOf, proxy, policies }),
    folder: join(dataFolder, "batches"),
    settings: () => settingsOf(config()),
    submit: (line, sink) => proxy().submit({ ...line, headers: { ...line.headers, [BACKGROUND_HEADER]: "1" } }, sink),
    modelOf: (body, caller) => {
      const model = modelOf(body, pool.models(), nameOf, options.virtualModels());
      assertMayUse(caller, model, nameOf);
      return model;
    },
    loadOf: (model) => {
      // A line for a virtual model may go to any model.
      const models = options.virtualModels().includes(model) ? pool.models() : [model];
      return loadOf(models, config(), pool, proxy());
    },
  });
}

function settingsOf({ batches, limits, timeouts }: FleetConfig): BatchSettings {
  return {
    isEnabled: batches.enabled,
    maxInFlight: batches.maxInFlight,
    keptSeconds: batches.retentionDays * 86_400,
    maxTenantBytes: batches.maxBytesPerTenant,
    maxTenantFiles: batches.maxFilesPerTenant,
    maxOpenBatches: batches.maxOpenBatches,
    maxLineBytes: limits.maxBodyBytes,
    bodyTimeoutMs: timeouts.body,
  };
}

function loadOf(
  models: readonly string[],
  { routing }: FleetConfig,
  pool: UpstreamPool,
  proxy: RunningProxy,
): ModelLoad {
  const byId = new Map(models.flatMap((model) => pool.upstreams(model).map((each) => [each.id, each] as const)));
  const ready = [...byId.values()].filter(({ state }) => state === "ready");
  const seats = ready.map(({ capacity }) => capacity.seats);
  const isKnown = seats.every((each) => each !== undefined);
  return {
    numReady: ready.length,
    seats: isKnown ? Math.floor(seats.reduce((sum, each) => sum + each!, 0) * routing.seatFactor) : undefined,
    numInFlight: ready.reduce((sum, { id }) => sum + proxy.numInFlight(id), 0),
    numWaiting: Math.max(0, ...models.map((model) => proxy.numWaiting(model))),
    yieldsToOthers: ready.every(({ engine }) => engine === "millrace"),
  };
}
