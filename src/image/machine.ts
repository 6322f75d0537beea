/** The common parts of all machines: paths, versions and commands. */
import type { ImageEngine } from "./image-request.js";

export const APP = "/opt/millrace";
const BIN = `${APP}/node_modules/millrace/bin/millrace.js`;
export const BUNDLED_MODEL = `${APP}/node_modules/millrace/models/mill-base.gguf`;
export const CONFIG = "/etc/millrace/millrace.yaml";
export const STATE = "/var/lib/millrace";
/** Python's virtual environment on machines without containers. */
export const ENGINE = "/opt/engine";
/** A user id that is free on common systems, and equal in all containers so that volumes keep their owner. */
export const USER_ID = 10_001;

export const NODE_IMAGE = "node:22-trixie-slim";

interface EngineSource {
  readonly image: string;
  /** Requirement for pip. */
  readonly requirement: string;
  /** Program in the virtual environment, which replaces the adapter's. */
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

/** Sends all writes to the state folder, so that all other folders may be read-only. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  NODE_ENV: "production",
  HOME: STATE,
  // Engines look up their user's name, which a bare user id lacks.
  USER: "millrace",
  LOGNAME: "millrace",
  MILLRACE_CACHE: `${STATE}/cache`,
  HF_HOME: `${STATE}/huggingface`,
};

export const BOOT_ARGS = [BIN, "boot", "--config", CONFIG, "--state", STATE] as const;
export const HEALTH_ARGS = [BIN, "health", "--config", CONFIG] as const;

/** Time for downloading and loading tens of gigabytes. */
export const START_MINUTES = 60;
/** Longer than the five minutes that the fleet gives running requests. */
export const STOP_SECONDS = 330;

/** @param prefix path of millrace's folder on the installing machine */
export const npmInstall = (specs: readonly string[], prefix: string = APP): string[] => [
  "npm",
  "install",
  "--prefix",
  prefix,
  "--omit=dev",
  "--ignore-scripts",
  "--no-audit",
  "--no-fund",
  ...specs,
];
