/** The inputs of an image and the files that rendering returns. The caller writes the files. */
import type { FleetConfig } from "../fleet/config/schema.js";

export const TARGETS = ["docker", "compose", "cloud-init", "packer", "systemd", "kubernetes"] as const;
export type ImageTarget = (typeof TARGETS)[number];

export interface ImageFile {
  /** Relative path with slashes. */
  readonly path: string;
  /** The text of the file, or the path of the file to copy. */
  readonly content: { readonly text: string } | { readonly copyOf: string };
  readonly isExecutable?: boolean;
}

/** The source of millrace's own package. */
export type PackageSource =
  /** A name or address that npm can install: millrace@0.1.0, an https URL. */
  | { readonly kind: "spec"; readonly spec: string }
  /** A tarball, copied along with the files. */
  | { readonly kind: "file"; readonly path: string; readonly name: string };

/** Engines that an image can contain. Others run elsewhere and are attached. */
export type ImageEngine = "millrace" | "vllm" | "sglang";

/** A fleet, prepared for an image. */
export interface ImageFleet {
  /** Name for objects and files: lower-case letters, digits and hyphens. */
  readonly slug: string;
  /** The text of millrace.yaml. */
  readonly text: string;
  readonly config: FleetConfig;
  readonly engine: ImageEngine;
  /** GPUs of all instances together, on Kubernetes of one instance; 0: none. */
  readonly numGpus: number;
  /** Number of instances of the first model. */
  readonly numPlanned: number;
  /** Environment variables in the configuration, including MILLRACE_API_KEY. */
  readonly variables: readonly string[];
}

export interface ImageRequest {
  readonly target: ImageTarget;
  readonly packages: readonly PackageSource[];
  /** The machine's listening address, or the address on which a container's port is published. */
  readonly host: string;
  readonly port: number;
  /** The container image, for Kubernetes. */
  readonly image: string;
  /** Number of machines that share one instance, for Kubernetes. */
  readonly numNodes: number;
}

export const textFile = (path: string, text: string): ImageFile => ({ path, content: { text } });

export function copiesOf(packages: readonly PackageSource[]): ImageFile[] {
  return packages.flatMap((each) =>
    each.kind === "file" ? [{ path: `packages/${each.name}`, content: { copyOf: each.path } }] : [],
  );
}
