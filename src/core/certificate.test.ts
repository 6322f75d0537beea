import { createPrivateKey } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeCertificate, writeCertificate } from "../../test/helpers/certificate.js";
import { recordingLogger } from "../../test/helpers/fake-server.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { type Certificate, CertificateWatch, readCertificate } from "./certificate.js";
import { MillraceError } from "./errors.js";

const DAY_MS = 86_400_000;
const inDays = (days: number): number => Math.round(Date.now() / 1000 + days * 86_400) * 1000;

function errorOf(read: () => unknown): string {
  try {
    read();
  } catch (thrown) {
    if (thrown instanceof MillraceError) return `${thrown.code}: ${thrown.message} | ${thrown.hint}`;
    throw thrown;
  }
  return "none";
}

test("a certificate and its key are read, with the time of its end", () => {
  const toMs = inDays(90);
  const files = writeCertificate(tempTree({}), makeCertificate({ toMs }));
  expect(readCertificate(files)).toEqual({ cert: files.cert, key: files.key, endsMs: toMs });
});

test("each pair that serves no client has an error of its own", () => {
  const folder = tempTree({});
  const made = makeCertificate();
  const other = makeCertificate();
  const locked = createPrivateKey(made.key).export({
    type: "pkcs8",
    format: "pem",
    cipher: "aes-256-cbc",
    passphrase: "x",
  }) as string;
  const damaged = made.cert.replace(/\n[\s\S]{40}/, "\n");
  const cases = [
    [made.cert, other.key, /^certificate_invalid: expected the key of \S+cert\.pem in \S+key\.pem, got another cert/],
    ["", made.key, /^certificate_invalid: expected a certificate as PEM in \S+cert\.pem, got a file without one/],
    [damaged, made.key, /^certificate_invalid: expected a certificate as PEM in \S+, got a damaged one/],
    [made.cert, made.cert, /^certificate_invalid: expected a private key as PEM in \S+key\.pem, got a file without/],
    [made.cert, locked, /^certificate_invalid: .*got one with a passphrase \| .*openssl pkey/],
  ] as const;
  for (const [cert, key, expected] of cases) {
    const error = errorOf(() => readCertificate(writeCertificate(folder, { cert, key })));
    expect(error).toMatch(expected);
    expect(error).not.toContain("BEGIN");
  }
  const ended = makeCertificate({ toMs: inDays(-1), fromMs: inDays(-2) });
  expect(errorOf(() => readCertificate(writeCertificate(folder, ended)))).toMatch(
    /^certificate_invalid: expected a certificate in force in \S+cert\.pem, got one that ended on .* \| renew/,
  );
  const early = makeCertificate({ fromMs: inDays(1) });
  expect(errorOf(() => readCertificate(writeCertificate(folder, early)))).toMatch(/got one that begins on .* clock/);
});

test("files that are not there, or no files, are named", () => {
  const files = writeCertificate(tempTree({}));
  expect(errorOf(() => readCertificate({ ...files, keyfile: join(files.keyfile, "..") }))).toMatch(
    /^file_unreadable: expected the certificate's private key in \S+, got a folder/,
  );
  rmSync(files.certfile);
  expect(errorOf(() => readCertificate(files))).toMatch(
    /^file_unreadable: expected the server's certificate in \S+cert\.pem, got no file of that name/,
  );
});

/** A watch over a pair in a folder, with the pairs that it passes on and its log. */
function watched(toMs: number) {
  const folder = tempTree({});
  const files = writeCertificate(folder, makeCertificate({ toMs }));
  const { logger, lines } = recordingLogger();
  const renewed: Certificate[] = [];
  const watch = new CertificateWatch(files, toMs, logger, (certificate) => renewed.push(certificate));
  return { folder, files, lines, renewed, watch };
}

test("a renewed pair is passed on once; half of one, or a wrong one, leaves the one before", () => {
  const { folder, files, lines, renewed, watch } = watched(inDays(90));
  watch.look();
  expect(renewed).toEqual([]);
  const next = makeCertificate({ toMs: inDays(180) });
  writeFileSync(files.certfile, next.cert);
  watch.look();
  watch.look();
  expect(renewed).toEqual([]);
  expect(lines.map(({ level }) => level)).toEqual(["warn"]);
  expect(lines[0]!.message).toMatch(/the one before stays: expected the key of/);
  writeFileSync(files.keyfile, next.key);
  watch.look();
  watch.look();
  expect(renewed.map(({ cert }) => cert)).toEqual([next.cert]);
  expect(lines.at(-1)).toMatchObject({ level: "info", message: "the server's certificate was renewed" });
  rmSync(folder, { recursive: true });
  watch.look();
  expect(renewed).toHaveLength(1);
});

test("its end is warned of each day from two weeks before, until it is renewed", () => {
  const toMs = inDays(30);
  const { folder, lines, renewed, watch } = watched(toMs);
  const lookBefore = (days: number): void => watch.look(toMs - days * DAY_MS);
  for (const days of [30, 20, 14.5]) lookBefore(days);
  expect(lines).toEqual([]);
  for (const days of [13.5, 13.4, 12.5, -1]) lookBefore(days);
  expect(lines.map(({ level, message }) => `${level} ${message}`)).toEqual(
    Array.from({ length: 3 }, () => "warn the server's certificate ends soon, or has ended"),
  );
  writeCertificate(folder, makeCertificate({ toMs: inDays(120) }));
  lookBefore(12);
  expect(renewed).toHaveLength(1);
  lookBefore(11);
  expect(lines.at(-1)!.level).toBe("info");
});
