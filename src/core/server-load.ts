/** Asks a running server on this machine for its number of requests. */
import { askOwnServer } from "./own-server.js";

/** Short, since the list also shows busy and stopped servers. */
const ANSWER_TIMEOUT_MS = 1000;

interface Load {
  readonly running: number;
  readonly waiting: number;
}

/** The sum over all instances in the metrics. */
export function loadIn(metrics: string): Load {
  const sumOf = (name: string): number =>
    metrics
      .split("\n")
      .filter((line) => line.startsWith(`millrace:${name}{`) || line.startsWith(`millrace:${name} `))
      .reduce((sum, line) => sum + (Number(line.slice(line.lastIndexOf(" ") + 1)) || 0), 0);
  return { running: sumOf("num_requests_running"), waiting: sumOf("num_requests_waiting") };
}

/** @returns undefined if the server does not answer */
export async function askForLoad(url: string): Promise<Load | undefined> {
  // Requests cannot go to a wildcard address.
  const address = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
  try {
    const answer = await askOwnServer(`${address}/metrics`, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    return answer.ok ? loadIn(await answer.text()) : undefined;
  } catch {
    return undefined;
  }
}
