/** The files of all tenants: stores, lists, reads, deletes and expires them. */
import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { MillraceError } from "../../core/errors.js";
import type { BatchTable, KeyedResource, Page, PageQuery } from "./batch-table.js";
import type { BatchFolders } from "./folders.js";
import {
  BATCH_FILE_EXPIRY_SECONDS,
  MAX_BATCH_FILE_BYTES,
  MAX_EXPIRY_SECONDS,
  MAX_FILE_BYTES,
  MIN_EXPIRY_SECONDS,
} from "./limits.js";
import { type BatchRecord, FILE_PURPOSES, type FileRecord } from "./record.js";
import { receiveUpload, type Upload } from "./upload.js";

interface ShelfLimits {
  /** Bytes of all files of a tenant. */
  readonly maxTenantBytes: number;
  readonly maxTenantFiles: number;
  readonly idleMs: number;
}

interface ShelfOptions {
  readonly folders: BatchFolders;
  readonly table: BatchTable;
  readonly limits: () => ShelfLimits;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

/** A tenant's files are summed again after this many bytes. */
const ROOM_STEP_BYTES = 4 * 1024 * 1024;

const PURPOSES: readonly string[] = FILE_PURPOSES;

export class FileShelf {
  /** Bytes of uploads under way, by tenant. */
  readonly #arriving = new Map<string, number>();

  constructor(private readonly options: ShelfOptions) {}

  /**
   * Stores the file of a multipart body.
   * @param idempotencyKey a repeated upload of the same file gets the first one's record
   */
  async upload(tenant: string, incoming: IncomingMessage, idempotencyKey: string | undefined): Promise<FileRecord> {
    const { folders, table, limits } = this.options;
    const id = `file-${randomBytes(12).toString("hex")}`;
    const path = folders.unfinished(id);
    let numBytes = 0;
    this.assertRoom(tenant);
    try {
      const upload = await receiveUpload(incoming, {
        path,
        maxBytes: MAX_FILE_BYTES,
        idleMs: limits().idleMs,
        take: (more) => {
          const isStep = Math.floor((numBytes + more) / ROOM_STEP_BYTES) > Math.floor(numBytes / ROOM_STEP_BYTES);
          numBytes += more;
          this.#arriving.set(tenant, (this.#arriving.get(tenant) ?? 0) + more);
          if (isStep) this.assertRoom(tenant);
        },
      });
      this.assertRoom(tenant);
      const file = this.#recordOf(id, tenant, upload);
      const key = idempotencyKey === undefined ? undefined : keyOf(file, upload, idempotencyKey);
      const before = key === undefined ? undefined : this.#before(key);
      if (before !== undefined) return before;
      await rename(path, folders.file(id));
      table.addFile(file, key);
      return file;
    } finally {
      await rm(path, { force: true });
      const left = (this.#arriving.get(tenant) ?? 0) - numBytes;
      if (left > 0) this.#arriving.set(tenant, left);
      else this.#arriving.delete(tenant);
    }
  }

  get(tenant: string, id: string): FileRecord {
    const file = this.options.table.file(tenant, id);
    if (file !== undefined && file.purpose !== "message_results" && !this.#isExpired(file)) return file;
    throw new MillraceError("not_found", `expected the id of a file, got ${JSON.stringify(id.slice(0, 80))}`, {
      hint: "GET /v1/files lists the files; they may expire",
    });
  }

  /** The results of one of Anthropic's batches; undefined if it had none, or if they have expired. */
  results({ owner, outputFileId }: BatchRecord): FileRecord | undefined {
    return outputFileId === undefined ? undefined : this.options.table.file(owner.tenant, outputFileId);
  }

  list(tenant: string, query: PageQuery, purpose: string | undefined): Page<FileRecord> {
    return this.options.table.files(tenant, query, purpose);
  }

  async open({ id }: FileRecord): Promise<FileHandle> {
    try {
      return await open(this.options.folders.file(id), "r");
    } catch (cause) {
      throw new MillraceError("not_found", `expected the content of ${id} on the gateway's disk, got none`, { cause });
    }
  }

  async remove({ id }: FileRecord): Promise<void> {
    this.options.table.removeFile(id);
    await this.options.folders.removeFile(id);
  }

  async removeExpired(): Promise<void> {
    for (const file of this.options.table.expiredFiles(this.#nowSeconds())) await this.remove(file);
  }

  /** Throws storage_quota if a tenant's files, uploads under way and `more` bytes exceed the limits. */
  assertRoom(tenant: string, more = 0): void {
    const { maxTenantBytes, maxTenantFiles } = this.options.limits();
    const { numBytes, numFiles } = this.options.table.usedBy(tenant);
    const all = numBytes + (this.#arriving.get(tenant) ?? 0) + more;
    const hint = "delete files that are no longer needed; the results of batches count too";
    if (all > maxTenantBytes) {
      throw new MillraceError("storage_quota", `expected at most ${maxTenantBytes} bytes of files, got more`, { hint });
    }
    if (numFiles >= maxTenantFiles) {
      throw new MillraceError("storage_quota", `expected at most ${maxTenantFiles} files, got more`, { hint });
    }
  }

  #recordOf(id: string, tenant: string, { fields, filename, numBytes }: Upload): FileRecord {
    const purpose = fields.get("purpose");
    if (purpose === undefined || !PURPOSES.includes(purpose)) {
      const got = purpose === undefined ? "none" : JSON.stringify(purpose.slice(0, 80));
      throw invalid("purpose", `one of ${PURPOSES.join(", ")}`, got);
    }
    if (purpose === "batch" && numBytes > MAX_BATCH_FILE_BYTES) {
      const message = `expected a file of at most ${MAX_BATCH_FILE_BYTES} bytes for a batch, got ${numBytes}`;
      throw new MillraceError("body_too_large", message, { param: "file" });
    }
    const createdAt = this.#nowSeconds();
    const seconds = expiryOf(fields) ?? (purpose === "batch" ? BATCH_FILE_EXPIRY_SECONDS : undefined);
    const expiresAt = seconds === undefined ? undefined : createdAt + seconds;
    return { id, tenant, filename, purpose: purpose as FileRecord["purpose"], bytes: numBytes, createdAt, expiresAt };
  }

  #before(key: KeyedResource): FileRecord | undefined {
    const { table } = this.options;
    const known = table.keyed(key.tenant, key.operation, key.key);
    if (known === undefined) return undefined;
    assertSame(known.fingerprint, key);
    return table.file(key.tenant, known.id);
  }

  #isExpired({ expiresAt }: FileRecord): boolean {
    return expiresAt !== undefined && expiresAt <= this.#nowSeconds();
  }

  #nowSeconds(): number {
    return Math.floor(this.options.nowMs() / 1000);
  }
}

/** Throws if the key stands for another request. */
export function assertSame(fingerprint: string, key: KeyedResource): void {
  if (fingerprint === key.fingerprint) return;
  throw new MillraceError(
    "idempotency_conflict",
    "expected the request that the Idempotency-Key came with first, got another",
    {
      hint: "use a new key for a new request",
    },
  );
}

function keyOf({ id, tenant, purpose, filename }: FileRecord, { digest, fields }: Upload, key: string): KeyedResource {
  const asked = JSON.stringify([digest, purpose, filename, [...fields].sort()]);
  return { tenant, operation: "files", key, fingerprint: createHash("sha256").update(asked).digest("hex"), id };
}

function expiryOf(fields: ReadonlyMap<string, string>): number | undefined {
  const [anchor, seconds] = [fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")];
  if (anchor === undefined && seconds === undefined) return undefined;
  if (anchor !== "created_at")
    throw invalid("expires_after[anchor]", "created_at", anchor === undefined ? "none" : "another");
  const value = /^\d{1,10}$/.test(seconds ?? "") ? Number(seconds) : Number.NaN;
  if (value >= MIN_EXPIRY_SECONDS && value <= MAX_EXPIRY_SECONDS) return value;
  throw invalid(
    "expires_after[seconds]",
    `an integer in [${MIN_EXPIRY_SECONDS}, ${MAX_EXPIRY_SECONDS}]`,
    "another value",
  );
}

function invalid(param: string, expected: string, got: string): MillraceError {
  return new MillraceError("invalid_parameter", `expected ${param} to be ${expected}, got ${got}`, { param });
}
