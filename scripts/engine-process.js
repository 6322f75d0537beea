/** Starts our server for a benchmark, on a free port, and waits until it answers. */
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

export async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/**
 * @param args arguments of `millrace`, without --port
 * @returns {Promise<{url: string, child: import("node:child_process").ChildProcess}>}
 */
export async function startServer(...args) {
  const port = await freePort();
  return startAt(port, ...args, "--port", String(port));
}

/** @param port the port of `millrace` with these args */
export async function startAt(port, ...args) {
  const command = [join(root, "bin/millrace.js"), ...args];
  const child = spawn(process.execPath, command, { stdio: ["ignore", "ignore", "inherit"] });
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; i < 600; i++) {
    const isUp = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isUp) return { url, child };
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`expected ${args.join(" ")} to start within two minutes`);
}
