/** Starts a real `millrace serve` of a fleet for end-to-end tests, and stops it with everything it started. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { repositoryRoot } from "./fixtures.js";

export interface FleetInstance {
  readonly id: string;
  readonly model: string;
  readonly state: string;
  readonly pid: number;
  readonly starts: number;
  readonly url: string;
  readonly in_flight: number;
}

export const ADMIN_KEY = "fleet-admin";

export class FleetProcess implements AsyncDisposable {
  private constructor(
    readonly url: string,
    readonly folder: string,
    private readonly child: ReturnType<typeof spawn>,
    private readonly output: { text: string },
    private readonly exited: Promise<number | null>,
  ) {}

  /** @param config millrace.yaml as an object; host, port and admin-key are set */
  static start(config: object): Promise<FleetProcess> {
    const folder = mkdtempSync(join(tmpdir(), "millrace-fleet-"));
    writeConfig(folder, config);
    return FleetProcess.run(["--config", join(folder, "millrace.yaml")], folder);
  }

  static async run(
    args: readonly string[],
    folder = mkdtempSync(join(tmpdir(), "millrace-fleet-")),
    name: "serve" | "boot" = "serve",
  ): Promise<FleetProcess> {
    const command = [process.execPath, join(repositoryRoot(), "bin/millrace.js"), name, ...args];
    const env = { ...process.env, MILLRACE_CACHE: join(folder, "cache") };
    // One pipe for both streams: the text is in the order in which it was written, whichever pipe would be read first.
    const child = spawn("sh", ["-c", 'exec "$@" 2>&1', "sh", ...command], {
      cwd: repositoryRoot(),
      env,
      stdio: ["ignore", "pipe", "ignore"],
    });
    const output = { text: "" };
    // Not "exit", after which the end of the output may still be on its way.
    const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
    const url = await new Promise<string>((resolve, reject) => {
      child.stdout!.setEncoding("utf8").on("data", (text: string) => {
        output.text += text;
        const ready = /^ {2}ready +(http\S+)/m.exec(output.text);
        if (ready !== null) resolve(ready[1]!);
      });
      void exited.then((code) => reject(new Error(`serve ended with ${code} before it was ready:\n${output.text}`)));
    });
    return new FleetProcess(url, folder, child, output, exited);
  }

  /** Of the server itself, not of its engines. */
  get pid(): number {
    return this.child.pid!;
  }

  get isAlive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Everything it wrote so far. */
  get text(): string {
    return this.output.text;
  }

  async instances(): Promise<readonly FleetInstance[]> {
    const { data } = (await this.admin("GET", "/admin/instances")) as { data: FleetInstance[] };
    return data;
  }

  async admin(method: string, path: string, body?: object): Promise<unknown> {
    const headers = { authorization: `Bearer ${ADMIN_KEY}` };
    const answer = await fetch(this.url + path, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return answer.json();
  }

  /** Writes the configuration anew, has it read, and waits for what is said about it. */
  async reload(config: object | string, said: RegExp): Promise<void> {
    const from = this.text.length;
    writeConfig(this.folder, config);
    this.child.kill("SIGHUP");
    await until(() => said.test(this.text.slice(from)), `${said} after SIGHUP`);
  }

  /** SIGTERM, then the exit code. */
  stop(): Promise<number | null> {
    this.child.kill("SIGTERM");
    return this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null) {
      this.child.kill("SIGTERM");
      const late = setTimeout(() => this.child.kill("SIGTERM"), 10_000);
      await this.exited;
      clearTimeout(late);
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function writeConfig(folder: string, config: object | string): void {
  const whole =
    typeof config === "string"
      ? config
      : stringify({ port: 0, "admin-key": ADMIN_KEY, "log-level": "warn", ...config });
  writeFileSync(join(folder, "millrace.yaml"), whole);
}

/** Looks every 50 ms until it is so; processes are real here, and so is their time. */
export async function until(isSo: () => boolean | Promise<boolean>, what: string, timeoutMs = 30_000): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await isSo())) {
    if (performance.now() > deadlineMs) throw new Error(`expected ${what} within ${timeoutMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
