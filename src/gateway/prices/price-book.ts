/** The prices of the configured models: their own, those of hardware by the hour, and list prices of paid APIs. */
import type { Price, TieredPrice } from "../usage/price.js";
import type { Rate } from "../usage/record.js";
import type { HardwareMeter } from "./hardware-meter.js";
import type { PriceBook } from "./price.js";
import { listedRows, type PriceList, rowAt } from "./price-list.js";
import { scaled } from "./tiered-price.js";

/** The configuration of a model's price. */
export interface ModelPricing {
  /** The model's own price. */
  readonly price?: Price | undefined;
  /** Nano-dollars for an hour of one of its instances. */
  readonly nanoPerHour?: bigint | undefined;
  /** Names of the model at a paid API: the first with a list price counts. Empty: the model runs on own hardware. */
  readonly listNames: readonly string[];
  /** Share of the price that a paid API's batch endpoint charges, in thousandths. Absent: it has no endpoint. */
  readonly batchThousandths?: bigint | undefined;
}

export interface BookSettings {
  readonly models: ReadonlyMap<string, ModelPricing>;
  /** Prices by a model's name in the fleet or at its API. */
  readonly prices: ReadonlyMap<string, Price>;
  /** Share of the price that requests of batches cost on own hardware, in thousandths. */
  readonly batchThousandths: bigint;
}

/** The current price. */
type PriceSource = () => TieredPrice | undefined;

/** Whether a paid API serves the model: it charges its full price for a line sent as a single request. */
const isApi = (pricing: ModelPricing | undefined): boolean => (pricing?.listNames.length ?? 0) > 0;

const isThere = <T>(value: T | undefined): value is T => value !== undefined;

export class ConfiguredPrices implements PriceBook {
  /** Prices of batches, by the full price and the share of it. */
  readonly #ofBatches = new WeakMap<Price, Map<bigint, TieredPrice>>();

  /** The source of each model's price, for the current settings. */
  readonly #sources = new Map<string, PriceSource>();
  #settings: BookSettings | undefined;

  constructor(
    private readonly settings: () => BookSettings,
    private readonly meter: HardwareMeter,
    private readonly list: () => PriceList,
    private readonly epochMs: () => number,
  ) {}

  priceOf(model: string, rate: Rate = "full"): TieredPrice | undefined {
    const settings = this.settings();
    if (this.#settings !== settings) {
      this.#settings = settings;
      this.#sources.clear();
    }
    let source = this.#sources.get(model);
    if (source === undefined) {
      source = this.#sourceOf(model, settings);
      this.#sources.set(model, source);
    }
    const price = source();
    if (price === undefined || rate === "full") return price;
    const pricing = settings.models.get(model);
    const ofApi = rate === "provider-batch" ? pricing?.batchThousandths : undefined;
    const thousandths = isApi(pricing) ? ofApi : settings.batchThousandths;
    return thousandths === undefined ? price : this.#batch(price, thousandths);
  }

  #sourceOf(model: string, { models, prices }: BookSettings): PriceSource {
    const pricing = models.get(model);
    const listNames = pricing?.listNames ?? [];
    const price = pricing?.price ?? [model, ...listNames].map((name) => prices.get(name)).find(isThere);
    if (price !== undefined) return () => price;
    const nanoPerHour = pricing?.nanoPerHour;
    if (nanoPerHour !== undefined) return () => this.meter.priceOf(model, nanoPerHour);
    const lists = listNames.map((name) => listedRows(this.list(), name));
    return () => {
      const nowMs = this.epochMs();
      return lists.map((rows) => rowAt(rows, nowMs)).find(isThere)?.price;
    };
  }

  #batch(price: TieredPrice, thousandths: bigint): TieredPrice {
    const byShare = this.#ofBatches.get(price) ?? new Map<bigint, TieredPrice>();
    this.#ofBatches.set(price, byShare);
    const made = byShare.get(thousandths) ?? scaled(price, thousandths, "batch");
    byShare.set(thousandths, made);
    return made;
  }
}
