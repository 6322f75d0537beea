/** Asks a running server of this machine how many requests it has. */
import { askOwnServer } from "./own-server.js";

/** A busy or stopped server is still listed. */
const ANSWER_TIMEOUT_MS = 1000;

interface Load {
  readonly running: number;
  readonly waiting: number;
}

/** Summed over all instances in the metrics. */
export function loadIn(metrics: string): Load {
  const sumOf = (name: string): number =>
    metrics
      .split("\n")
      .filter((line) => line.startsWith(`millrace:${name}{`) || line.startsWith(`millrace:${name} `))
      .reduce((sum, line) => sum + (Number(line.slice(line.lastIndexOf(" ") + 1)) || 0), 0);
  return { running: sumOf("num_requests_running"), waiting: sumOf("num_requests_waiting") };
}

/** @returns undefined when the server does not answer */
export async function askForLoad(url: string): Promise<Load | undefined> {
  // A wildcard address cannot be asked.
  const address = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
  try {
    const answer = await askOwnServer(`${address}/metrics`, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    return answer.ok ? loadIn(await answer.text()) : undefined;
  } catch {
    return undefined;
  }
}
