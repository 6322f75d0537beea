/** Receives a file as multipart/form-data and writes it to the disk as it comes. */
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy, type BusboyFileStream } from "@fastify/busboy";
import { MillraceError } from "../../core/errors.js";

export interface Upload {
  readonly filename: string;
  readonly fields: ReadonlyMap<string, string>;
  readonly numBytes: number;
  /** SHA-256 of the content, as hex. */
  readonly digest: string;
}

interface UploadTerms {
  /** Where the content goes. Removed if the upload fails. */
  readonly path: string;
  readonly maxBytes: number;
  /** Called for each part of the content; throws if it must not be stored. */
  readonly take: (numBytes: number) => void;
  /** Longest time without a byte. */
  readonly idleMs: number;
}

const LIMITS = { fieldNameSize: 100, fieldSize: 8 * 1024, fields: 16, files: 1, parts: 24, headerPairs: 32 };
const MAX_FILENAME_CHARS = 255;

/** Rejects with a MillraceError; the file is then gone. */
export async function receiveUpload(incoming: IncomingMessage, terms: UploadTerms): Promise<Upload> {
  try {
    return await receive(incoming, terms);
  } catch (thrown) {
    incoming.unpipe();
    incoming.resume();
    await rm(terms.path, { force: true });
    throw thrown;
  }
}

function receive(incoming: IncomingMessage, { path, maxBytes, take, idleMs }: UploadTerms): Promise<Upload> {
  const parser = parserOf(incoming, maxBytes);
  const fields = new Map<string, string>();
  let file: Promise<Omit<Upload, "fields">> | undefined;
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      settle();
      incoming.unpipe(parser);
      parser.destroy();
      reject(error);
    };
    let timer: NodeJS.Timeout;
    const watch = (): void => {
      clearTimeout(timer);
      timer = setTimeout(
        () => fail(new MillraceError("request_timeout", `expected the next byte within ${idleMs} ms, got none`)),
        idleMs,
      );
    };
    const onClose = (): void => {
      if (!incoming.complete)
        fail(new MillraceError("client_closed", "expected the whole body, got a closed connection"));
    };
    const settle = (): void => {
      clearTimeout(timer);
      incoming.off("data", watch).off("close", onClose);
    };
    parser.on("field", (name, value, isNameCut, isValueCut) => {
      const param = name.slice(0, 80);
      if (isNameCut || isValueCut) fail(invalid("a short form field", "a longer one", param));
      else if (fields.has(name)) fail(invalid("each form field once", `${JSON.stringify(param)} again`, param));
      else fields.set(name, value);
    });
    parser.on("file", (name, stream, filename) => {
      if (name !== "file") {
        stream.resume();
        fail(invalid("the content under the form field file", JSON.stringify(name.slice(0, 80)), "file"));
        return;
      }
      file = store(stream, filename, path, maxBytes, take);
      file.catch(fail);
    });
    for (const [event, what] of [
      ["filesLimit", "one file"],
      ["fieldsLimit", `at most ${LIMITS.fields} form fields`],
      ["partsLimit", `at most ${LIMITS.parts} parts`],
    ] as const) {
      parser.on(event, () => fail(invalid(what, "more")));
    }
    parser.on("error", () => fail(invalid("a whole multipart/form-data body", "something else")));
    parser.on("finish", () => {
      settle();
      if (file === undefined) fail(invalid("a form field file with the content", "none", "file"));
      else file.then((stored) => resolve({ ...stored, fields }), fail);
    });
    watch();
    incoming
      .on("data", watch)
      .on("close", onClose)
      .on("error", () => {});
    incoming.pipe(parser);
  });
}

function parserOf(incoming: IncomingMessage, maxBytes: number) {
  const type = incoming.headers["content-type"] ?? "";
  if (!/^multipart\/form-data\b/i.test(type)) {
    throw invalid("a body of type multipart/form-data", type === "" ? "none" : type.slice(0, 80));
  }
  try {
    const limits = { ...LIMITS, fileSize: maxBytes };
    return new Busboy({ headers: { ...incoming.headers, "content-type": type }, limits });
  } catch {
    throw invalid("a multipart/form-data body with a boundary", "none");
  }
}

async function store(
  stream: BusboyFileStream,
  filename: string,
  path: string,
  maxBytes: number,
  take: (numBytes: number) => void,
): Promise<Omit<Upload, "fields">> {
  const hash = createHash("sha256");
  let numBytes = 0;
  const meter = new Transform({
    transform(chunk: Buffer, _, done) {
      try {
        take(chunk.length);
        numBytes += chunk.length;
        hash.update(chunk);
        done(null, chunk);
      } catch (thrown) {
        done(thrown as Error);
      }
    },
  });
  try {
    await pipeline(stream, meter, createWriteStream(path, { mode: 0o600, flush: true }));
  } catch (thrown) {
    throw toStorageError(thrown);
  }
  if (stream.truncated) {
    throw new MillraceError("body_too_large", `expected a file of at most ${maxBytes} bytes, got more`, {
      param: "file",
    });
  }
  return { filename: cleanName(filename), numBytes, digest: hash.digest("hex") };
}

/** A full disk gets an error of its own. */
export function toStorageError(thrown: unknown): unknown {
  const { code } = thrown as NodeJS.ErrnoException;
  if (code !== "ENOSPC" && code !== "EDQUOT") return thrown;
  return new MillraceError("storage_full", "expected free space on the gateway's disk, got a full disk", {
    hint: "delete files, or tell the operator",
    cause: thrown,
  });
}

/** The name is only shown: no path is made of it. */
function cleanName(name: string | undefined): string {
  const clean = [...(name ?? "")].filter((char) => char >= " " && char !== "\u007f").join("");
  return clean.slice(0, MAX_FILENAME_CHARS) || "file";
}

function invalid(expected: string, got: string, param?: string): MillraceError {
  return new MillraceError("invalid_request", `expected ${expected}, got ${got}`, param === undefined ? {} : { param });
}
