/**
 * The virtual models of a configuration: their names, the policies that resolve them, and their part of the
 * administrator's API.
 */
import { createHash } from "node:crypto";
import type Database from "libsql";
import type { Logger } from "pino";
import { MillraceError } from "../../core/errors.js";
import { type Cascade, CascadePolicy } from "../../gateway/cascade/cascade-policy.js";
import type { CascadeReport, RouteCounts } from "../../gateway/cascade/cascade-report.js";
import { Guard } from "../../gateway/cascade/guard.js";
import { type RouterFile, readRouterFile } from "../../gateway/cascade/router-file.js";
import type { Policy } from "../../gateway/pipeline.js";
import { RoutePolicy } from "../../gateway/routes/route-policy.js";
import { routeReport } from "../../gateway/routes/route-report.js";
import type { ModelRoute } from "../../gateway/routes/route-table.js";
import { RouteTally } from "../../gateway/routes/route-tally.js";
import { TermsPolicy } from "../../gateway/routes/terms-policy.js";
import type { FleetConfig } from "../config/schema.js";

interface VirtualModelsOptions {
  readonly logger: Pick<Logger, "warn" | "error">;
  /** The gateway's database; the first use opens it. */
  readonly database: () => Database.Database;
  readonly counts: RouteCounts;
  /** Whether a canary gets some of a model's requests. */
  readonly hasCanary: (model: string) => boolean;
}

type CascadeEntry = FleetConfig["cascades"][number];

const byName = <T extends { readonly name: string; readonly aliases: readonly string[] }, U>(
  all: readonly T[],
  make: (each: T) => U,
): ReadonlyMap<string, U> =>
  new Map(
    all.flatMap((each) => {
      const made = make(each);
      return [each.name, ...each.aliases].map((name): [string, U] => [name, made]);
    }),
  );

export class VirtualModels {
  #routes: ReadonlyMap<string, ModelRoute> = new Map();
  #cascades: ReadonlyMap<string, Cascade> = new Map();
  #entries: readonly CascadeEntry[] = [];
  #names: ReadonlySet<string> = new Set();
  #sessionHeader = "";
  readonly #routed = new RouteTally();
  readonly #fallbacks = new RouteTally();
  readonly #decisions = new RouteTally();

  /** Terms and routes, in the order in which requests pass them. They choose the model. */
  readonly routing: readonly Policy[];
  readonly cascade: Policy;

  constructor(private readonly options: VirtualModelsOptions) {
    const { logger, counts } = options;
    this.routing = [
      new TermsPolicy(),
      new RoutePolicy({
        routes: () => this.#routes,
        sessionHeader: () => this.#sessionHeader,
        isNested: (model) => this.#cascades.has(model) || options.hasCanary(model),
        onRouted: (route, model) => {
          this.#routed.add(route, model);
          counts.routed(route, model);
        },
        onFallback: (route, from, errorClass) => {
          this.#fallbacks.add(route, from);
          counts.fellBack(route, from, errorClass);
        },
      }),
    ];
    this.cascade = new CascadePolicy({
      cascades: () => this.#cascades,
      random: Math.random,
      onDecision: (cascade, decision) => {
        this.#decisions.add(cascade, decision);
        counts.decided(cascade, decision);
      },
      onClosed: ({ name, small, large, guard }) =>
        logger.error(
          { cascade: name, small, large, ...guard.report() },
          "cascade closed: the small model's answers lose more than max-loss; all requests go to the large model",
        ),
      onError: (cascade, err) => logger.error({ cascade, err }, "an audit failed"),
    });
  }

  /** Throws file_unreadable or config_value for an unusable router, before anything changes. */
  configure({ routes, cascades, routing }: FleetConfig): void {
    const routers = cascades.map(({ router }) => (router === undefined ? undefined : readRouterFile(router)));
    this.#cascades = byName(cascades, (entry) => this.#cascadeOf(entry, routers[cascades.indexOf(entry)]));
    this.#routes = byName(routes, (route) => route);
    this.#entries = cascades;
    this.#names = new Set([...this.#routes.keys(), ...this.#cascades.keys()]);
    this.#sessionHeader = routing.sessionHeader;
  }

  /** Every name that clients may send. */
  names(): readonly string[] {
    return [...this.#names];
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  reports(): readonly CascadeReport[] {
    return this.#entries.map(({ name, small, large, audit }) => {
      const decisions = this.#decisions.of(name).map(({ end: decision, count }) => ({ decision, count }));
      const terms = { maxLoss: audit.maxLoss, auditShare: audit.share };
      return { name, small, large, ...terms, decisions, ...this.#cascades.get(name)!.guard.report() };
    });
  }

  routeReports(): readonly object[] {
    const tallies = { routed: this.#routed, fallbacks: this.#fallbacks };
    return [...new Set(this.#routes.values())].map((route) => routeReport(route, tallies));
  }

  /** A measurement is valid only for this pair and this judge. */
  reopen(name: string): void {
    const cascade = this.#cascades.get(name);
    if (cascade === undefined) {
      const names = this.#entries.map((entry) => entry.name).join(", ") || "no cascades";
      throw new MillraceError("not_found", `expected one of ${names}, got ${JSON.stringify(name)}`);
    }
    cascade.guard.reopen();
  }

  #cascadeOf(entry: CascadeEntry, router: RouterFile | undefined): Cascade {
    const { name, small, large, minLogprob, agreement, audit } = entry;
    const floor = entry.floor ?? router?.floor ?? 0;
    const { share, maxLoss, alarmEvery, judge: judgeModel } = audit;
    const judge = { router, floor, minLogprob };
    // A measurement holds for this pair and this judge only.
    const terms = JSON.stringify([small, large, judge, agreement ?? null, judgeModel ?? null, maxLoss, alarmEvery]);
    const version = createHash("sha256").update(terms).digest("hex");
    const guard = new Guard(this.options.database(), name, version, { maxLoss, alarmEvery });
    return { name, small, large, judge, agreement, audit: { share, judgeModel }, guard };
  }
}
