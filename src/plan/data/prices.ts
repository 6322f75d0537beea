/** Dated list prices in dollars, for GPU hours and for APIs per million tokens. Replace them by your own. */

export interface DatedPrice {
  readonly usd: number;
  /** Month the price was seen. */
  readonly date: string;
  readonly source: string;
}

const SPECIALTY = "middle of the specialty clouds' range, mercatus-ai.com/blog/cloud-gpu-pricing";
const DROPLETS = "list price of DigitalOcean GPU Droplets";

/** Per GPU and hour, on demand. */
export const GPU_HOUR: Readonly<Record<string, DatedPrice>> = {
  h100: { usd: 3.0, date: "2026-05", source: SPECIALTY },
  "h100-pcie": { usd: 2.5, date: "2026-05", source: `${SPECIALTY} for H100, its lower end` },
  "h100-nvl": { usd: 2.8, date: "2026-05", source: `${SPECIALTY} for H100` },
  h200: { usd: 4.0, date: "2026-05", source: SPECIALTY },
  b200: { usd: 6.0, date: "2026-05", source: "assumed: one and a half times the H200's" },
  "a100-40": { usd: 1.1, date: "2026-05", source: `${SPECIALTY} for the 80 GB model, its lower end` },
  "a100-80": { usd: 1.3, date: "2026-05", source: SPECIALTY },
  l40s: { usd: 1.57, date: "2025-06", source: DROPLETS },
  "rtx6000-ada": { usd: 1.57, date: "2025-06", source: DROPLETS },
  "rtx4000-ada": { usd: 0.76, date: "2025-06", source: DROPLETS },
  a10g: { usd: 1.006, date: "2025-06", source: "AWS g5.xlarge on demand, us-east-1" },
  rtx4090: { usd: 0.6, date: "2025-06", source: "assumed: between marketplace and data-centre offers" },
  mi300x: { usd: 1.99, date: "2025-06", source: DROPLETS },
};

/** Per core and hour, for CPUs whose price is not given. */
export const CPU_CORE_HOUR: DatedPrice = {
  usd: 0.045,
  date: "2025-06",
  source: "assumed: on-demand virtual CPUs of large clouds",
};

export interface ApiPrice {
  readonly name: string;
  readonly usdPerMillionInput: number;
  readonly usdPerMillionOutput: number;
  readonly date: string;
}

/** List prices, not recommendations. */
export const API_PRICES: readonly ApiPrice[] = [
  { name: "gpt-4o-mini", usdPerMillionInput: 0.15, usdPerMillionOutput: 0.6, date: "2026-04" },
  { name: "hosted llama-3-70b", usdPerMillionInput: 0.59, usdPerMillionOutput: 0.79, date: "2026-04" },
  { name: "claude-haiku-4.5", usdPerMillionInput: 0.8, usdPerMillionOutput: 4, date: "2026-05" },
  { name: "claude-sonnet-4.6", usdPerMillionInput: 3, usdPerMillionOutput: 15, date: "2026-05" },
];

/** A GPU's power limit in watts, by the makers' datasheets. */
export const GPU_WATTS: Readonly<Record<string, number>> = {
  h100: 700,
  "h100-pcie": 350,
  "h100-nvl": 400,
  h200: 700,
  b200: 1000,
  "a100-40": 400,
  "a100-80": 400,
  l40s: 350,
  "rtx6000-ada": 300,
  "rtx4000-ada": 130,
  a10g: 150,
  rtx4090: 450,
  mi300x: 750,
};
