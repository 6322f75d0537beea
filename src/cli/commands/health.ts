/**
 * `millrace health`: asks a server whether it accepts requests, for health checks on machines without another HTTP
 * client.
 */

import { Command } from "commander";
import { MillraceError } from "../../core/errors.js";
import { noAnswer } from "../../core/no-answer.js";
import { optionError } from "../../core/option-error.js";
import { askOwnServer } from "../../core/own-server.js";

const TIMEOUT_MS = 5000;

export function healthCommand(): Command {
  return new Command("health")
    .description("Ask a server whether it accepts requests; exit code 1 if not.")
    .option("--url <url>", "address of the server", "http://127.0.0.1:8000")
    .option("--config <file>", "the server's millrace.yaml, for its address, instead of --url")
    .action(runHealth);
}

async function addressIn(file: string): Promise<string> {
  const [{ ANY_ENVIRONMENT, readConfig }, { certificateFilesOf }, { ownUrlOf }] = await Promise.all([
    import("../../fleet/config/read-config.js"),
    import("../../core/certificate.js"),
    import("../../core/listen.js"),
  ]);
  const config = readConfig(file, ANY_ENVIRONMENT);
  return ownUrlOf({ ...config, certificate: certificateFilesOf(config) });
}

async function runHealth(flags: { readonly url: string; readonly config?: string }): Promise<void> {
  const base = flags.config === undefined ? flags.url : await addressIn(flags.config);
  if (!/^https?:\/\//.test(base) || !URL.canParse(base)) throw optionError("--url", "an http URL", base);
  const url = new URL("/health", base);
  const refuse = (got: string, cause?: unknown) =>
    new MillraceError("no_instance_ready", `expected ${url} to answer 200, got ${got}`, {
      hint: "see the server's log",
      cause,
    });
  const ask = flags.config === undefined ? fetch : askOwnServer;
  const answer = await ask(url.href, { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch((cause: unknown) => {
    throw refuse(noAnswer(cause), cause);
  });
  if (answer.status !== 200) throw refuse(String(answer.status));
  process.stdout.write("ok\n");
}
