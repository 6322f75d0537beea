/**
 * The models on this machine's disk, as servers see them: `src/library` implements it, and the command line gives it to
 * the server that has an administrator.
 */
import type { Hono } from "hono";
import type { MillraceError } from "./errors.js";

export interface PullStatus {
  readonly id: string;
  /** As `--model` takes it. */
  readonly model: string;
  /** waiting: another process downloads from the same repository. */
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled";
  /** The file on its way; undefined before the hub has listed any. */
  readonly file: string | undefined;
  /** Received bytes of all the model's files; 0 before the hub has listed them. */
  readonly receivedBytes: number;
  readonly totalBytes: number;
  readonly error: MillraceError | undefined;
  readonly startedAtMs: number;
  readonly endedAtMs: number | undefined;
}

/** A download, which goes on even if nobody watches it. */
export interface Pull {
  status(): PullStatus;
  readonly ended: Promise<void>;
}

export interface FoundModel {
  /** As `--model` takes it. */
  readonly name: string;
  readonly path: string;
  /** Memory that one instance needs by the planner's estimate; undefined: its files do not say. */
  readonly neededBytes: number | undefined;
  readonly freeBytes: number;
}

/** A whole model of the disk that this machine's engine can load. */
export interface ServableModel {
  /** As `--model` takes it. */
  readonly name: string;
  readonly path: string;
}

export interface ModelLibrary {
  /**
   * The paths under /admin/library. The caller has been checked already; errors are thrown to the app that includes
   * this one.
   */
  readonly app: Hono;
  /** The downloaded models, without those that are bundled. */
  servable(): Promise<readonly ServableModel[]>;
  /** Starts a download, or joins the one of the same model. @param name as people write it */
  pull(name: string): Pull;
  /** Throws model_in_use and model_not_found. */
  remove(name: string): Promise<void>;
  /**
   * Finds a complete model and keeps it from being removed while `use` runs. Throws model_not_found.
   * @param use puts the model to use; afterwards the server's configuration names it
   */
  hold<T>(name: string, use: (found: FoundModel) => Promise<T>): Promise<T>;
}
