/**
 * The models on this machine's disk, as servers see them: `src/library` implements it, and the command line gives it to
 * servers with an administrator.
 */
import type { Hono } from "hono";
import type { MillraceError } from "./errors.js";

export interface PullStatus {
  readonly id: string;
  /** In the form of `--model`. */
  readonly model: string;
  /** waiting: another process downloads from the same repository. */
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled";
  /** The file in transfer; undefined before the hub has listed files. */
  readonly file: string | undefined;
  /** Received bytes of all the model's files; 0 before the hub has listed them. */
  readonly receivedBytes: number;
  readonly totalBytes: number;
  readonly error: MillraceError | undefined;
  readonly startedAtMs: number;
  readonly endedAtMs: number | undefined;
}

/** A download, which continues even if nobody watches it. */
export interface Pull {
  status(): PullStatus;
  readonly ended: Promise<void>;
}

export interface FoundModel {
  /** In the form of `--model`. */
  readonly name: string;
  readonly path: string;
  /** The planner's estimate of one instance's memory; undefined: the model's files lack the facts. */
  readonly neededBytes: number | undefined;
  readonly freeBytes: number;
}

/** A complete model on the disk that this machine's engine can load. */
export interface ServableModel {
  /** In the form of `--model`. */
  readonly name: string;
  readonly path: string;
}

export interface ModelLibrary {
  /** The paths under /admin/library. The caller is checked already; errors are thrown to the enclosing app. */
  readonly app: Hono;
  /** The downloaded models, without bundled ones. */
  servable(): Promise<readonly ServableModel[]>;
  /** Starts a download, or joins that of the same model. @param name as people write it */
  pull(name: string): Pull;
  /** Throws model_in_use and model_not_found. */
  remove(name: string): Promise<void>;
  /**
   * Finds a complete model and keeps it from removal while `use` runs. Throws model_not_found.
   * @param use puts the model to use; afterwards the server's configuration names it
   */
  hold<T>(name: string, use: (found: FoundModel) => Promise<T>): Promise<T>;
}
