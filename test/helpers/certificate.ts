/** Self-signed certificates for 127.0.0.1 and localhost. Node makes none, and a machine may lack openssl. */
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CertificateFiles } from "../../src/core/certificate.js";

/** An element of DER (X.690): its tag, the length, and the content. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
const octets = (content: Uint8Array): Buffer => der(0x04, content);
const TRUE = der(0x01, Buffer.from([0xff]));
const oid = (hex: string): Buffer => der(0x06, Buffer.from(hex, "hex"));
const COMMON_NAME = oid("550403");
const SUBJECT_ALT_NAME = oid("551d11");
const BASIC_CONSTRAINTS = oid("551d13");
const ECDSA_WITH_SHA256 = sequence(oid("2a8648ce3d040302"));

/** As UTCTime: 261130134500Z. */
const time = (ms: number): Buffer => {
  const digits = new Date(ms).toISOString().replace(/\D/g, "");
  return der(0x17, Buffer.from(`${digits.slice(2, 14)}Z`));
};

const DAY_MS = 86_400_000;

interface Validity {
  readonly fromMs?: number;
  readonly toMs?: number;
}

function certificatePem(privateKey: KeyObject, publicKey: KeyObject, { fromMs, toMs }: Validity): string {
  const name = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, Buffer.from("localhost")))));
  const names = sequence(der(0x82, Buffer.from("localhost")), der(0x87, Buffer.from([127, 0, 0, 1])));
  const extensions = sequence(
    sequence(BASIC_CONSTRAINTS, TRUE, octets(sequence(TRUE))),
    sequence(SUBJECT_ALT_NAME, octets(names)),
  );
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    // Positive, and another one each time.
    der(0x02, Buffer.from([1, ...Array.from({ length: 8 }, () => Math.floor(256 * Math.random()))])),
    ECDSA_WITH_SHA256,
    name,
    sequence(time(fromMs ?? Date.now() - DAY_MS), time(toMs ?? Date.now() + 90 * DAY_MS)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, extensions),
  );
  const signature = der(0x03, Buffer.from([0]), sign("sha256", body, privateKey));
  const base64 = sequence(body, ECDSA_WITH_SHA256, signature).toString("base64");
  return `-----BEGIN CERTIFICATE-----\n${base64.match(/.{1,64}/g)!.join("\n")}\n-----END CERTIFICATE-----\n`;
}

interface MadeCertificate {
  readonly cert: string;
  readonly key: string;
}

/** @example makeCertificate({ toMs: Date.now() - 1000 }) // one that has ended */
export function makeCertificate(validity: Validity = {}): MadeCertificate {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const key = privateKey.export({ type: "pkcs8", format: "pem" }) as string;
  return { cert: certificatePem(privateKey, publicKey, validity), key };
}

/** Writes cert.pem and key.pem into the folder. */
export function writeCertificate(
  folder: string,
  made: MadeCertificate = makeCertificate(),
): CertificateFiles & MadeCertificate {
  const files = { certfile: join(folder, "cert.pem"), keyfile: join(folder, "key.pem") };
  writeFileSync(files.certfile, made.cert);
  writeFileSync(files.keyfile, made.key, { mode: 0o600 });
  return { ...files, ...made };
}
