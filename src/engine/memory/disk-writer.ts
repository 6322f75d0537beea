/** A thread that writes KV blocks to disk without delaying steps, and keeps the folder within its size. */
import { isMainThread, type MessagePort, workerData } from "node:worker_threads";
import { makeRoom, writeBlock } from "./disk-files.js";

export interface DiskWriterData {
  /** Folder of the blocks of all models, and its largest size. */
  readonly root: string;
  readonly maxBytes: number;
  /** Folder of this engine's blocks. */
  readonly folder: string;
  readonly port: MessagePort;
}

export type ToDiskWriter =
  | { readonly kind: "write"; readonly key: string; readonly payload: Uint8Array<ArrayBuffer> }
  | { readonly kind: "flush" };

export type FromDiskWriter =
  /** One write has ended, successfully or not. */
  | { readonly kind: "written"; readonly key: string; readonly isStored: boolean; readonly problem?: string }
  | { readonly kind: "tidied"; readonly numBytes: number; readonly numEvicted: number }
  | { readonly kind: "flushed" };

/** Share of the folder's size that is written between two scans. */
const TIDY_SHARE = 1 / 32;

function run({ root, maxBytes, folder, port }: DiskWriterData): void {
  const send = (message: FromDiskWriter) => port.postMessage(message);
  let numBytesSince = 0;
  const tidy = () => {
    // Below the limit, so that the writes until the next scan fit too.
    send({ kind: "tidied", ...makeRoom(root, maxBytes * (1 - TIDY_SHARE)) });
    numBytesSince = 0;
  };
  tidy();
  port.on("message", (message: ToDiskWriter) => {
    if (message.kind === "flush") return send({ kind: "flushed" });
    const { key, payload } = message;
    try {
      if (numBytesSince + payload.length > maxBytes * TIDY_SHARE) tidy();
      writeBlock(folder, key, payload);
      numBytesSince += payload.length;
      send({ kind: "written", key, isStored: true });
    } catch (thrown) {
      const problem = thrown instanceof Error ? thrown.message : String(thrown);
      send({ kind: "written", key, isStored: false, problem });
    }
  });
}

if (!isMainThread) run(workerData as DiskWriterData);
