/** What an image is made of, and what rendering gives: files as text, which somebody else writes. */
import type { FleetConfig } from "../fleet/config/schema.js";

export const TARGETS = ["docker", "compose", "cloud-init", "packer", "systemd", "kubernetes"] as const;
export type ImageTarget = (typeof TARGETS)[number];

export interface ImageFile {
  /** Relative, with slashes. */
  readonly path: string;
  /** What it says, or the file that it is a copy of. */
  readonly content: { readonly text: string } | { readonly copyOf: string };
  readonly isExecutable?: boolean;
}

/** Where millrace itself comes from. */
export type PackageSource =
  /** What npm installs by name or address: millrace@0.1.0, an https URL. */
  | { readonly kind: "spec"; readonly spec: string }
  /** A tarball that travels with the files. */
  | { readonly kind: "file"; readonly path: string; readonly name: string };

/** Engines whose machines can be built here; others run elsewhere and are attached. */
export type ImageEngine = "millrace" | "vllm" | "sglang";

/** A fleet, made ready for a machine of its own. */
export interface ImageFleet {
  /** Of objects and files: lower-case letters, digits and hyphens. */
  readonly slug: string;
  /** millrace.yaml. */
  readonly text: string;
  readonly config: FleetConfig;
  readonly engine: ImageEngine;
  /** That all instances take together, on Kubernetes one of them; 0: none. */
  readonly numGpus: number;
  /** Instances that the plan has of its first model. */
  readonly numPlanned: number;
  /** Environment variables that it reads, MILLRACE_API_KEY among them. */
  readonly variables: readonly string[];
}

export interface ImageRequest {
  readonly target: ImageTarget;
  readonly packages: readonly PackageSource[];
  /** Where the machine listens; of a container, where it is published. */
  readonly host: string;
  readonly port: number;
  /** Kubernetes: the container image. */
  readonly image: string;
  /** Kubernetes: machines that share one instance. */
  readonly numNodes: number;
}

export const textFile = (path: string, text: string): ImageFile => ({ path, content: { text } });

export function copiesOf(packages: readonly PackageSource[]): ImageFile[] {
  return packages.flatMap((each) =>
    each.kind === "file" ? [{ path: `packages/${each.name}`, content: { copyOf: each.path } }] : [],
  );
}
