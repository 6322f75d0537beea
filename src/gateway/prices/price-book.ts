/** The prices of the configured models: their own, those of hardware by the hour, and list prices of paid APIs. */
import type { HardwareMeter } from "./hardware-meter.js";
import type { Price, PriceBook } from "./price.js";
import { listedPrice, type PriceList } from "./price-list.js";
import { scaled, type TieredPrice } from "./tiered-price.js";

/** What the configuration says of a model's price. */
export interface ModelPricing {
  /** The model's own price. */
  readonly price?: Price | undefined;
  /** Nano-dollars for an hour of one of its instances. */
  readonly nanoPerHour?: bigint | undefined;
  /** Names of the model at a paid API, of which the first with a list price counts; empty: the model runs on hardware of one's own. */
  readonly listNames: readonly string[];
}

export interface BookSettings {
  readonly models: ReadonlyMap<string, ModelPricing>;
  /** Prices by a model's name in the fleet or at its API. */
  readonly prices: ReadonlyMap<string, Price>;
  /** Share of the price that requests of batches cost, in thousandths, where no price list says another. */
  readonly batchThousandths: bigint;
}

export class ConfiguredPrices implements PriceBook {
  /** The price of batches, by the price of others. */
  readonly #ofBatches = new WeakMap<Price, TieredPrice>();

  constructor(
    private readonly settings: () => BookSettings,
    private readonly meter: HardwareMeter,
    private readonly list: () => PriceList,
    private readonly epochMs: () => number,
  ) {}

  priceOf(model: string, isBatch = false): TieredPrice | undefined {
    const { models, prices, batchThousandths } = this.settings();
    const pricing = models.get(model);
    const own = pricing?.price ?? this.#named(prices, model, pricing);
    if (own !== undefined) return isBatch ? this.#batch(own, batchThousandths) : own;
    if (pricing?.nanoPerHour !== undefined) {
      const hardware = this.meter.priceOf(model, pricing.nanoPerHour);
      return isBatch ? this.#batch(hardware, batchThousandths) : hardware;
    }
    for (const name of pricing?.listNames ?? []) {
      const listed = listedPrice(this.list(), name, this.epochMs());
      if (listed !== undefined) return isBatch ? this.#batch(listed.price, listed.batchThousandths) : listed.price;
    }
    return undefined;
  }

  #named(prices: BookSettings["prices"], model: string, pricing: ModelPricing | undefined): Price | undefined {
    const name = [model, ...(pricing?.listNames ?? [])].find((each) => prices.has(each));
    return name === undefined ? undefined : prices.get(name);
  }

  #batch(price: TieredPrice, thousandths: bigint): TieredPrice {
    const known = this.#ofBatches.get(price);
    if (known !== undefined) return known;
    const made = scaled(price, thousandths, "batch");
    this.#ofBatches.set(price, made);
    return made;
  }
}
