/** Binds a server to an address, and names the address as a URL. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { CertificateFiles } from "./certificate.js";
import { MillraceError } from "./errors.js";

/** Binds a server to an address; port 0: any free one. */
export function listen(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const refuse = (error: NodeJS.ErrnoException) => {
      const hints: Readonly<Record<string, string>> = {
        EADDRINUSE:
          "stop the program that uses it, or choose another with --port (with --config: with port in the file)",
        EACCES: "choose a port above 1023",
        EADDRNOTAVAIL: "choose an address of this machine with --host (with --config: with host in the file)",
        ENOTFOUND: "choose an address of this machine with --host (with --config: with host in the file)",
      };
      const hint = hints[error.code ?? ""];
      const code = error.code ?? error.message;
      const got = code === "EADDRINUSE" ? `a port that another program uses (${code})` : code;
      const message = `expected to listen on ${host}:${port}, got ${got}`;
      reject(new MillraceError("invalid_option", message, { cause: error, ...(hint === undefined ? {} : { hint }) }));
    };
    server.once("error", refuse);
    server.listen(port, host, () => {
      server.off("error", refuse);
      resolve(server.address() as AddressInfo);
    });
  });
}

/**
 * Rejects like `listen` if listening is impossible now, so that a command learns it before it loads a model for
 * minutes.
 * Port 0 is always free.
 */
export async function assertFreePort(host: string, port: number): Promise<void> {
  if (port === 0) return;
  const server = createServer();
  await listen(server, host, port);
  await new Promise((resolve) => server.close(resolve));
}

interface Address {
  readonly host: string;
  readonly port: number;
  /** Present if the server speaks HTTPS. */
  readonly certificate: CertificateFiles | undefined;
}

/** @example urlOf({ host: "::1", port: 8000, certificate: undefined }) // "http://[::1]:8000" */
export function urlOf({ host, port, certificate }: Address): string {
  const scheme = certificate === undefined ? "http" : "https";
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** The URL for this machine's own programs: a server on all addresses is reached on loopback. */
export function ownUrlOf(address: Address): string {
  const { host } = address;
  return urlOf({ ...address, host: host === "0.0.0.0" || host === "" ? "127.0.0.1" : host === "::" ? "::1" : host });
}
