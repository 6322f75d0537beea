/** The models on the server's disk and on the hub, for its administrator. */
export interface Memory {
  readonly weight_bytes: number;
  readonly work_bytes: number;
  readonly kv_bytes: number;
  readonly total_bytes: number;
  readonly context_tokens: number;
}

export interface StoredModel {
  readonly name: string;
  readonly bytes: number;
  readonly last_used_at: number;
  readonly is_complete: boolean;
  readonly is_bundled: boolean;
  readonly is_in_use: boolean;
  /** For an incomplete model: the name to pull to continue the download. */
  readonly resumes?: string;
  readonly family?: string;
  readonly quantization?: string;
  /** The reason why the model's header could not be read. */
  readonly problem?: string;
  readonly memory?: Memory;
}

export interface Disk {
  readonly folder: string;
  readonly free_disk_bytes?: number;
  readonly free_memory_bytes: number;
  readonly data: readonly StoredModel[];
}

export interface Pull {
  readonly id: string;
  readonly model: string;
  readonly state: "waiting" | "running" | "done" | "failed" | "cancelled";
  readonly received_bytes: number;
  readonly total_bytes: number;
  readonly error: { readonly message: string; readonly hint?: string } | null;
}

export interface Repository {
  readonly name: string;
  readonly downloads: number;
  readonly gated: boolean;
  readonly updated_at: number | null;
}

export interface Variant {
  readonly name: string;
  readonly label: string;
  readonly bytes: number;
  readonly is_whole: boolean;
  readonly is_on_disk: boolean;
}

export const LIBRARY = "admin/library";

/** Encodes a name for a path; its slashes stay. */
export const inPath = (name: string): string => name.split("/").map(encodeURIComponent).join("/");
