/**
 * A server's certificate and its private key: two files, checked against each other, and read again after their
 * renewal.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { statSync } from "node:fs";
import { createSecureContext } from "node:tls";
import { MillraceError } from "./errors.js";
import { readText } from "./read-text.js";

export interface CertificateFiles {
  /** PEM: the server's certificate, then the certificates between it and its authority's. */
  readonly certfile: string;
  /** PEM, without a passphrase. */
  readonly keyfile: string;
}

export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly endsMs: number;
}

interface CertificateSettings {
  readonly sslCertfile?: string | undefined;
  readonly sslKeyfile?: string | undefined;
}

/** The files in a command's flags, or in a configuration's keys. Undefined: the server speaks plain HTTP. */
export function certificateFilesOf({ sslCertfile, sslKeyfile }: CertificateSettings): CertificateFiles | undefined {
  if (sslCertfile === undefined || sslKeyfile === undefined) return undefined;
  return { certfile: sslCertfile, keyfile: sslKeyfile };
}

function invalid(expected: string, got: string, hint: string, cause?: unknown): MillraceError {
  return new MillraceError("certificate_invalid", `expected ${expected}, got ${got}`, { hint, cause });
}

function certificateIn(file: string, pem: string): X509Certificate {
  const hint = "give the certificate as PEM, the server's own first (with certbot: fullchain.pem)";
  const expected = `a certificate as PEM in ${file}`;
  if (!pem.includes("-----BEGIN CERTIFICATE-----")) throw invalid(expected, "a file without one", hint);
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw invalid(expected, "a damaged one", hint, cause);
  }
}

function keyIn(file: string, pem: string): KeyObject {
  const expected = `a private key as PEM in ${file}`;
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    const isLocked = pem.includes("ENCRYPTED");
    const got = isLocked ? "one with a passphrase" : "a file without one";
    const hint = isLocked
      ? "write it without: openssl pkey -in KEY -out PLAIN_KEY, readable by the server's user only"
      : "give the key that the certificate was made for (with certbot: privkey.pem)";
    throw invalid(expected, got, hint, cause);
  }
}

function assertInForce({ validFrom, validTo }: X509Certificate, file: string, nowMs: number): void {
  const expected = `a certificate in force in ${file}`;
  if (nowMs < Date.parse(validFrom)) {
    throw invalid(expected, `one that begins on ${validFrom}`, "check this machine's clock");
  }
  if (nowMs > Date.parse(validTo)) throw invalid(expected, `one that ended on ${validTo}`, "renew the certificate");
}

/** Throws file_unreadable, or certificate_invalid for a pair that cannot serve any client. */
export function readCertificate({ certfile, keyfile }: CertificateFiles, nowMs = Date.now()): Certificate {
  const cert = readText(certfile, "the server's certificate");
  const key = readText(keyfile, "the certificate's private key");
  const certificate = certificateIn(certfile, cert);
  if (!certificate.checkPrivateKey(keyIn(keyfile, key))) {
    const hint =
      "give the two files that were made together; of several certificates in a file, the server's own is first";
    throw invalid(`the key of ${certfile} in ${keyfile}`, "another certificate's", hint);
  }
  assertInForce(certificate, certfile, nowMs);
  try {
    createSecureContext({ cert, key });
  } catch (cause) {
    const hint = "make a certificate with a key of at least 2048 bits (RSA) or of P-256, and a SHA-2 signature";
    throw invalid(`a certificate that TLS takes in ${certfile}`, (cause as Error).message, hint, cause);
  }
  return { cert, key, endsMs: Date.parse(certificate.validTo) };
}

interface WatchLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

const LOOK_MS = 10_000;
const DAY_MS = 86_400_000;
/** Renewal programs run at the latest a month before the end. */
const DAYS_OF_WARNING = 14;

/** Identifies the file behind a path and symbolic links. */
function markOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false });
  // The time of the last change also covers rights: a renewed key may become readable only after its writing.
  return found === undefined ? "" : `${found.ino} ${found.mtimeMs} ${found.ctimeMs} ${found.size}`;
}

/** Reads both files again whenever one of them changes. Invalid files change nothing. */
export class CertificateWatch {
  #marks: string;
  #warnedOfDays = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly files: CertificateFiles,
    private endsMs: number,
    private readonly logger: WatchLogger,
    private readonly onRenewed: (certificate: Certificate) => void,
  ) {
    this.#marks = this.#marksNow();
  }

  start(): void {
    this.look();
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  look(nowMs = Date.now()): void {
    const marks = this.#marksNow();
    if (marks !== this.#marks) {
      this.#marks = marks;
      this.#read(nowMs);
    }
    const days = Math.floor((this.endsMs - nowMs) / DAY_MS);
    if (days >= DAYS_OF_WARNING || days >= this.#warnedOfDays) return;
    this.#warnedOfDays = days;
    const ends = new Date(this.endsMs).toISOString();
    this.logger.warn({ certfile: this.files.certfile, ends }, "the server's certificate ends soon, or has ended");
  }

  #marksNow(): string {
    try {
      return `${markOf(this.files.certfile)} ${markOf(this.files.keyfile)}`;
    } catch {
      return "";
    }
  }

  #read(nowMs: number): void {
    try {
      const certificate = readCertificate(this.files, nowMs);
      this.onRenewed(certificate);
      this.endsMs = certificate.endsMs;
      this.#warnedOfDays = Number.POSITIVE_INFINITY;
      const ends = new Date(this.endsMs).toISOString();
      this.logger.info({ certfile: this.files.certfile, ends }, "the server's certificate was renewed");
    } catch (thrown) {
      // The two files rarely change at once; the second one's change triggers another read.
      const { message } = thrown as Error;
      this.logger.warn({ err: thrown }, `the server's new certificate is not used, the one before stays: ${message}`);
    }
  }
}
