/**
 * Prices and the ledger of the configuration: the first policy, /admin/ledger, GET /v1/usage, and the deletion of old
 * rows.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Hono } from "hono";
import type { Logger } from "pino";
import { MillraceError, toMillraceError } from "../../core/errors.js";
import type { Alert } from "../../gateway/alerts/alert-store.js";
import { AlertWatch } from "../../gateway/alerts/alert-watch.js";
import { createAlertsApp } from "../../gateway/alerts/alerts-app.js";
import { OPENAI } from "../../gateway/api/dialect.js";
import { canaryName } from "../../gateway/canary/canary-name.js";
import { createLedgerApp, ownUsage } from "../../gateway/ledger/ledger-app.js";
import { LedgerPolicy } from "../../gateway/ledger/ledger-policy.js";
import type { RequestRow } from "../../gateway/ledger/ledger-rows.js";
import { DAY_MS, LedgerStore, type LostCharge } from "../../gateway/ledger/ledger-store.js";
import type { Policy } from "../../gateway/pipeline.js";
import { HardwareMeter } from "../../gateway/prices/hardware-meter.js";
import { amountsText } from "../../gateway/prices/price.js";
import { type BookSettings, ConfiguredPrices, type ModelPricing } from "../../gateway/prices/price-book.js";
import { type Amounts, type PriceList, priceFrom, readPriceList } from "../../gateway/prices/price-list.js";
import type { Caller } from "../../gateway/request.js";
import type { Database } from "../../gateway/store/database.js";
import { groupCommitOf } from "../../gateway/store/group-commit.js";
import type { Price } from "../../gateway/usage/price.js";
import { isProviderEngine } from "../config/provider-conflicts.js";
import type { FleetConfig } from "../config/schema.js";
import { logFailure, respondJson, respondWithError } from "../proxy/respond.js";

const OWN_USAGE_PATH = "/v1/usage";

/**
 * Time between two searches for old rows and for alerts, rows deleted in one transaction, and the pause between two.
 */
const SWEEP_MS = 60_000;
const SWEPT_ROWS = 500;
const PAUSE_MS = 10;

interface LedgerContext {
  /** Resolves a client's name to a model. */
  readonly config: () => FleetConfig;
  readonly database: () => Database.Database;
  readonly logger: Logger;
  /** The model that a client's name stands for. */
  readonly modelOf: (name: string) => string;
  readonly authorize: (headers: IncomingHttpHeaders) => Caller | Promise<Caller>;
  /** The amount that the budgets charged for a request that an earlier process lost. */
  readonly lostCharge?: LostCharge | undefined;
  readonly onAlert?: (alert: Alert) => void;
  /** Called with each request's row. */
  readonly onRow?: (row: RequestRow) => void;
}

interface Started {
  readonly store: LedgerStore;
  readonly database: Database.Database;
  readonly policy: Policy;
  readonly alerts: AlertWatch | undefined;
}

export class Ledger {
  /** Prices of tokens; budgets need them without a ledger too. */
  readonly prices: ConfiguredPrices;
  /** Whether the configuration had a ledger at the start. */
  readonly isKept: boolean;
  readonly #meter = new HardwareMeter(() => performance.now());
  #started: Started | undefined;
  #settings: { readonly of: FleetConfig; readonly book: BookSettings } | undefined;
  #list: PriceList | undefined;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> | undefined;
  #isClosed = false;

  constructor(private readonly context: LedgerContext) {
    this.prices = new ConfiguredPrices(
      () => this.#book(),
      this.#meter,
      () => this.#priceList(),
      () => Date.now(),
    );
    this.isKept = context.config().ledger !== undefined;
  }

  /** Opens the configured ledger. Call it when no other gateway writes to it. */
  open(): void {
    const { config, database: open, logger, modelOf, lostCharge, onRow, onAlert } = this.context;
    const epochMs = () => Date.now();
    const { ledger, alerts: rules } = config();
    if (ledger === undefined) return;
    const database = open();
    const store = new LedgerStore(database, groupCommitOf(database), logger);
    const lost = store.recover(epochMs(), lostCharge);
    if (lost > 0) logger.warn({ requests: lost }, "the gateway ended while requests ran; the ledger has them as lost");
    const policy = new LedgerPolicy({
      store,
      prices: this.prices,
      meter: this.#meter,
      logger,
      modelOf,
      epochMs,
      hasCostHeader: () => ledger.costHeader,
      now: () => performance.now(),
      onRow,
    });
    const alerts = rules && new AlertWatch({ ...alertRules(rules), database, logger, epochMs, onAlert });
    this.#started = { store, database, policy, alerts };
    this.#timer = setInterval(() => {
      this.#sweepNow(ledger);
      void alerts?.look();
    }, SWEEP_MS);
    this.#timer.unref();
  }

  /** Resolves when the rows so far are committed. */
  async written(): Promise<void> {
    await this.#started?.store.written();
  }

  /** Undefined without configured alerts. */
  get alerts(): AlertWatch | undefined {
    return this.#started?.alerts;
  }

  policies(): readonly Policy[] {
    return this.#started === undefined ? [] : [this.#started.policy];
  }

  /** Paths under /admin; undefined without a ledger. */
  adminApp(): Hono | undefined {
    if (this.#started === undefined) return undefined;
    const { database, alerts } = this.#started;
    const app = new Hono().route("/", createLedgerApp(database));
    return alerts === undefined
      ? app
      : app.route(
          "/",
          createAlertsApp(alerts.store, () => Date.now()),
        );
  }

  /** Answers GET /v1/usage. @returns whether the request has this path */
  handle(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): boolean {
    const { database } = this.#started ?? {};
    const [path, search = ""] = (incoming.url ?? "").split("?", 2);
    if (path !== OWN_USAGE_PATH) return false;
    Promise.resolve()
      .then(async () => {
        if (incoming.method !== "GET" && incoming.method !== "HEAD") {
          throw new MillraceError("method_not_allowed", `expected GET ${OWN_USAGE_PATH}, got ${incoming.method}`);
        }
        const caller = await this.context.authorize(incoming.headers);
        if (database === undefined) {
          const hint = "add ledger: {} to the gateway's file, and start it again";
          throw new MillraceError("not_found", "expected a gateway with a ledger, got one without", { hint });
        }
        const query = Object.fromEntries(new URLSearchParams(search));
        respondJson(outgoing, 200, requestId, await ownUsage(database, caller, query));
      })
      .catch((thrown: unknown) => {
        const error = toMillraceError(thrown);
        logFailure(this.context.logger, error, requestId, OWN_USAGE_PATH);
        respondWithError(outgoing, error, OPENAI, requestId);
      });
    return true;
  }

  /** Call it after the last request and before the database closes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#started?.alerts?.close();
    await this.#sweeping;
    this.#started?.store.flush();
  }

  #sweepNow({ keepDays, maxRows, hourlyDays }: NonNullable<FleetConfig["ledger"]>): void {
    const { store } = this.#started!;
    const sweep = async (): Promise<void> => {
      const now = Date.now();
      while (!this.#isClosed && store.prune(now - keepDays * DAY_MS, maxRows, SWEPT_ROWS)) await sleep(PAUSE_MS);
      while (!this.#isClosed && store.rollUp(now - hourlyDays * DAY_MS, SWEPT_ROWS)) await sleep(PAUSE_MS);
    };
    this.#sweeping ??= sweep()
      .catch((thrown: unknown) => this.context.logger.error({ err: thrown }, "the ledger could not delete old rows"))
      .finally(() => {
        this.#sweeping = undefined;
      });
  }

  #book(): BookSettings {
    const config = this.context.config();
    if (this.#settings?.of !== config) this.#settings = { of: config, book: bookOf(config) };
    return this.#settings.book;
  }

  #priceList(): PriceList {
    this.#list ??= readPriceList();
    return this.#list;
  }
}

function alertRules({
  webhook,
  webhookFormat,
  webhookSecret,
  minCost,
  minRequests,
  coolDown,
}: NonNullable<FleetConfig["alerts"]>) {
  return {
    webhooks: webhook.map(({ url, format = webhookFormat, secret = webhookSecret }) => ({
      url: url.reveal(),
      format,
      secret,
    })),
    coolDownMs: coolDown,
    minRequests,
    // A threshold needs no exact amount.
    minCost: Number(minCost) / 1e9,
  };
}

function bookOf({ models, prices, hardwarePrice, batchPriceShare }: FleetConfig): BookSettings {
  return {
    models: new Map(models.map((model) => [model.name, pricingOf(model, hardwarePrice)])),
    // A canary's requests cost as much as its model's.
    prices: new Map(
      prices.flatMap(({ model, ...amounts }) => [model, canaryName(model)].map((name) => [name, ownPrice(amounts)])),
    ),
    batchThousandths: thousandthsOf(batchPriceShare),
  };
}

const thousandthsOf = (share: number): bigint => BigInt(Math.round(share * 1000));

function pricingOf(model: FleetConfig["models"][number], fleetsHour: bigint | undefined): ModelPricing {
  const { name, engine, attach, price, hardwarePrice, provider } = model;
  // The price per hour is for own hardware, not for APIs.
  const isApi = isProviderEngine(engine);
  return {
    price: price && ownPrice(price),
    nanoPerHour: hardwarePrice ?? (isApi ? undefined : fleetsHour),
    listNames: isApi ? [...attach.flatMap(({ modelName }) => modelName ?? []), name] : [],
    // Independent of batch-endpoint now: lines already handed over cost the same when they end.
    batchThousandths: isApi ? thousandthsOf(provider.batchPriceShare) : undefined,
  };
}

/** The version states the amounts, since the configuration may have changed when the version is read. */
function ownPrice(amounts: Amounts): Price {
  const price = priceFrom("", amounts);
  return { ...price, version: `configured: ${amountsText(price)}` };
}
