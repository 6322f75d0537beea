/** The HTTP server over TLS: the rules of plain HTTP connections, and those of TLS only. */
import { once } from "node:events";
import { get } from "node:https";
import { type AddressInfo, connect as connectPlain } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { makeCertificate, writeCertificate } from "../../test/helpers/certificate.js";
import { type LogLine, recordingLogger, until } from "../../test/helpers/fake-server.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { type HttpAnswer, HttpServer } from "./http-server.js";

const NEVER_MS = 1_000_000;
const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
let folder: string;
let ca: string;
let server: HttpServer;
let address: AddressInfo;
let lines: readonly LogLine[];
beforeEach(() => {
  folder = tempTree({});
});
afterEach(() => server.close());

async function start(answer: HttpAnswer, stalledClientMs = NEVER_MS): Promise<void> {
  const recording = recordingLogger();
  lines = recording.lines;
  const certificate = writeCertificate(folder);
  ca = certificate.cert;
  server = new HttpServer({ logger: recording.logger, certificate, stalledClientMs }, answer);
  address = await server.listen("127.0.0.1", 0);
}

function open() {
  const socket = connect({ port: address.port, host: "127.0.0.1", ca, servername: "localhost" });
  const seen = { text: "", isClosed: false };
  socket.on("data", (chunk) => {
    seen.text += chunk.toString();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    seen.isClosed = true;
  });
  return { socket, seen };
}

test("a client that checks the certificate gets its answer", async () => {
  await start((incoming, outgoing) => outgoing.end(`asked ${incoming.url}`));
  const [answer] = await once(get({ port: address.port, host: "127.0.0.1", path: "/v1/models", ca }), "response");
  expect(String((await answer.toArray())[0])).toBe("asked /v1/models");
});

test("what is no request is refused with a coded answer; what is no TLS ends, and others are served", async () => {
  await start((_, outgoing) => outgoing.end("done"));
  const other = open();
  other.socket.write("nonsense\r\n\r\n");
  await until(() => other.seen.text.includes("invalid_request"), "the refusal");
  const plain = connectPlain(address.port, "127.0.0.1").on("error", () => {});
  plain.write(GET);
  await once(plain, "close");
  expect(lines.at(-1)!.message).toBe("refused: expected TLS, got a request in plain HTTP");
  const { socket, seen } = open();
  socket.write(GET);
  await until(() => seen.text.includes("done"), "the answer");
});

test("a client that knows no TLS of today is refused, and the log says so", async () => {
  await start((_, outgoing) => outgoing.end("done"));
  const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" } as const;
  const socket = connect({ port: address.port, host: "127.0.0.1", ca, servername: "localhost", ...old });
  await once(socket, "error");
  await until(() => lines.some(({ message }) => /expected TLS, got ERR_SSL_/.test(message)), "the line");
});

test("a connection that never agrees on keys ends, and holds up no end of the server", async () => {
  await start(() => {}, 20);
  const silent = connectPlain(address.port, "127.0.0.1").on("error", () => {});
  await once(silent, "close");
  await server.close();
  await start(() => {});
  const other = connectPlain(address.port, "127.0.0.1").on("error", () => {});
  await once(other, "connect");
  await Promise.all([server.close(), once(other, "close")]);
});

test("a client that has left ends its request; one that only ended its side is answered", async () => {
  const asked: string[] = [];
  const over: string[] = [];
  let answer = () => {};
  await start((incoming, outgoing, onceOver) => {
    asked.push(incoming.url!);
    onceOver(() => over.push(incoming.url!));
    answer = () => outgoing.end("late");
  });
  const left = open();
  left.socket.write(GET.replace("/", "/left"));
  await until(() => asked.includes("/left"), "the request");
  left.socket.destroy();
  await until(() => over.includes("/left"), "its end");
  const gone = open();
  gone.socket.end(GET.replace("/", "/gone"));
  await until(() => asked.includes("/gone"), "the request");
  gone.socket.destroy();
  await until(() => over.includes("/gone"), "its end");
  const { socket, seen } = open();
  socket.end(GET.replace("/", "/half"));
  await until(() => asked.includes("/half"), "the request");
  answer();
  await until(() => seen.text.includes("late"), "the answer");
  expect(seen.text).toMatch(/200 OK/);
});

test("a renewed certificate is shown to new connections, and open ones go on", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  try {
    await start((_, outgoing) => outgoing.end("done"));
    const before = open();
    await once(before.socket, "secureConnect");
    const fingerprintOf = (socket: TLSSocket) => socket.getPeerCertificate().fingerprint256;
    // The client trusts only the new certificate.
    ca = writeCertificate(folder, makeCertificate()).cert;
    vi.advanceTimersByTime(10_000);
    const after = open();
    await once(after.socket, "secureConnect");
    expect(fingerprintOf(after.socket)).not.toBe(fingerprintOf(before.socket));
    before.socket.write(GET);
    await until(() => before.seen.text.includes("done"), "the answer");
  } finally {
    vi.useRealTimers();
  }
});
