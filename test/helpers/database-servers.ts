/** Real Redis and PostgreSQL servers on loopback, for tests of what gateways share. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./free-port.js";

export interface DatabaseServer extends AsyncDisposable {
  readonly url: string;
  /** Ends it without a word. */
  kill(): Promise<void>;
  /** Starts it again, at the same address with the same data. */
  restart(): Promise<void>;
}

const onPath = (name: string): string | undefined =>
  (process.env.PATH ?? "")
    .split(":")
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));

/** Undefined: it is not installed, and tests that need it are skipped. */
export const redisPath = onPath("redis-server");

function postgresFolder(): string | undefined {
  const debian = "/usr/lib/postgresql";
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [...versions.map((version) => join(debian, version, "bin")), ...(process.env.PATH ?? "").split(":")];
  return folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
}

/** Undefined: it is not installed, and tests that need it are skipped. */
export const postgresPath = postgresFolder();

/** PostgreSQL refuses to run as root. */
function userOfPostgres(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const entry = /^postgres:[^:]*:(\d+):(\d+):/m.exec(readFileSync("/etc/passwd", "utf8"));
  if (entry === null) throw new Error("expected a user postgres, since the test runs as root");
  return { uid: Number(entry[1]), gid: Number(entry[2]) };
}

class Server implements DatabaseServer {
  #child: ChildProcess | undefined;

  constructor(
    readonly url: string,
    private readonly folder: string,
    private readonly launch: () => ChildProcess,
    private readonly ready: RegExp,
    private readonly signal: "SIGKILL" | "SIGQUIT",
  ) {}

  async restart(): Promise<void> {
    const child = this.launch();
    this.#child = child;
    let output = "";
    await new Promise<void>((resolve, reject) => {
      for (const stream of [child.stdout!, child.stderr!]) {
        stream.setEncoding("utf8").on("data", (text: string) => {
          output += text;
          if (this.ready.test(output)) resolve();
        });
      }
      child.once("exit", () => reject(new Error(`the server ended before it was ready:\n${output}`)));
    });
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.kill(this.signal);
    await exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

export async function startRedis(): Promise<DatabaseServer> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-redis-"));
  const port = await freePort();
  const args = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "yes"];
  const launch = () => spawn(redisPath!, args, { stdio: ["ignore", "pipe", "pipe"] });
  const server = new Server(`redis://127.0.0.1:${port}`, folder, launch, /Ready to accept connections/, "SIGKILL");
  await server.restart();
  return server;
}

export async function startPostgres(): Promise<DatabaseServer> {
  const folder = mkdtempSync(join(tmpdir(), "millrace-postgres-"));
  const port = await freePort();
  const user = userOfPostgres();
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  const options = { ...user, env: { PATH: process.env.PATH, LC_ALL: "C" } };
  const data = join(folder, "data");
  const initdb = ["-D", data, "-U", "millrace", "-A", "trust", "--no-sync", "-E", "UTF8"];
  execFileSync(join(postgresPath!, "initdb"), initdb, { ...options, stdio: "ignore" });
  const flags = ["listen_addresses=127.0.0.1", `unix_socket_directories=${folder}`, "shared_buffers=16MB"];
  const args = ["-D", data, "-p", String(port), ...flags.flatMap((flag) => ["-c", flag])];
  const launch = () => spawn(join(postgresPath!, "postgres"), args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const url = `postgres://millrace@127.0.0.1:${port}/postgres`;
  // Its children, which hold its shared memory, would outlive a killed parent for a while: SIGQUIT ends all at once,
  // without saving.
  const server = new Server(url, folder, launch, /ready to accept connections/, "SIGQUIT");
  await server.restart();
  return server;
}
