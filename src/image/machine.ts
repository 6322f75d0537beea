/** What every machine has alike: where things lie, which versions are taken, what runs. */
import type { ImageEngine } from "./image-request.js";

export const APP = "/opt/millrace";
const BIN = `${APP}/node_modules/millrace/bin/millrace.js`;
export const BUNDLED_MODEL = `${APP}/node_modules/millrace/models/mill-base.gguf`;
export const CONFIG = "/etc/millrace/millrace.yaml";
export const STATE = "/var/lib/millrace";
/** A virtual environment of Python, on machines without containers. */
export const ENGINE = "/opt/engine";
/** Nobody else's on common systems, and the same in every container: volumes keep their owner. */
export const USER_ID = 10_001;

export const NODE_IMAGE = "node:22-trixie-slim";

interface EngineSource {
  readonly image: string;
  /** For pip. */
  readonly requirement: string;
  /** In place of the adapter's program, from the virtual environment. */
  readonly program: readonly string[];
}

/** The versions whose flags the adapters know (docs/reference/engines.md). */
export const ENGINE_SOURCES: Readonly<Record<Exclude<ImageEngine, "millrace">, EngineSource>> = {
  vllm: {
    image: "vllm/vllm-openai:v0.33.0",
    requirement: "vllm==0.33.0",
    program: [`${ENGINE}/bin/vllm`, "serve"],
  },
  sglang: {
    image: "lmsysorg/sglang:v0.5.23",
    requirement: "sglang[all]==0.5.23",
    program: [`${ENGINE}/bin/python3`, "-m", "sglang.launch_server"],
  },
};

/** Everything that is written goes to the state folder, so that all else may be read-only. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  NODE_ENV: "production",
  HOME: STATE,
  // Engines ask who they are where the user has no name.
  USER: "millrace",
  LOGNAME: "millrace",
  MILLRACE_CACHE: `${STATE}/cache`,
  HF_HOME: `${STATE}/huggingface`,
};

export const BOOT_ARGS = [BIN, "boot", "--config", CONFIG, "--state", STATE] as const;
export const HEALTH_ARGS = [BIN, "health", "--config", CONFIG] as const;

/** Pulling tens of gigabytes and loading them takes its time. */
export const START_MINUTES = 60;
/** The fleet lets requests finish for five minutes. */
export const STOP_SECONDS = 330;

export const npmInstall = (specs: readonly string[]): string[] => [
  "npm",
  "install",
  "--prefix",
  APP,
  "--omit=dev",
  "--ignore-scripts",
  "--no-audit",
  "--no-fund",
  ...specs,
];
