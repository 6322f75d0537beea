/** `millrace bench embeddings`: measures embedding servers in alternation, with the same texts. */

import { Command, Option } from "commander";
import type { ServerUnderTest } from "../../bench/run/target.js";
import { locateModel } from "../../formats/locate-model.js";
import {
  addPeerOptions,
  addTableOptions,
  concurrencies,
  type OutputFlags,
  refuseGiven,
} from "../flags/bench-options.js";
import { integerIn, listOf, numberIn } from "../flags/option-values.js";
import { stagesTo } from "../output/stages.js";
import { measureServers } from "../process/measure-servers.js";
import { OF_STARTED, urlTarget, words } from "./bench-run.js";

interface EmbeddingsFlags extends OutputFlags {
  readonly url?: string;
  readonly model?: string;
  readonly serverArgs: string;
  readonly llamaServer?: string;
  readonly peer: readonly string[];
  readonly threads?: number;
  readonly tokens: readonly number[];
  readonly texts: readonly number[];
  readonly concurrency: readonly number[];
  readonly duration: number;
  readonly rounds: number;
  readonly seed: number;
  readonly minCosine: number;
  readonly timeout: number;
  readonly apiKey?: string;
}

export function benchEmbeddingsCommand(): Command {
  const counts = (flag: string) => (text: string) => listOf(flag)(text, undefined).map(integerIn(flag, 1, 1 << 20));
  const command = addPeerOptions(
    new Command("embeddings")
      .description(
        "Measure servers of vectors in alternation with the same texts: texts and tokens a second, latency, ratios with intervals, and the cosine of their vectors.",
      )
      .option("--url <url>", "[name=]URL of a running server with /v1/embeddings (default: this server, with --model)")
      .option("--model <name>", "with --url, the model's name in requests; else the embedding model to serve")
      .option("--server-args <args>", "further flags of the started server", "")
      .option(
        "--llama-server <binary>",
        "binary of llama.cpp's server, to measure with the same GGUF file in alternation",
      ),
  )
    .option("--tokens <n,…>", "tokens of each text", counts("--tokens"), [32, 256])
    .option("--texts <n,…>", "texts in each request", counts("--texts"), [1, 64])
    .option("--concurrency <n,…>", "clients at once", concurrencies, [1])
    .option("--duration <seconds>", "length of each run", numberIn("--duration", 0.1, 1e6), 5)
    .option("--rounds <n>", "runs of each server in each cell", integerIn("--rounds", 1, 1000), 3)
    .option("--seed <n>", "seed of the texts", integerIn("--seed", 0, 2 ** 31), 0)
    .option(
      "--min-cosine <n>",
      "least cosine of the servers' vectors of the same texts; a lower one is an error",
      numberIn("--min-cosine", -1, 1),
      0.9999,
    )
    .option("--timeout <seconds>", "longest wait for an answer, in seconds", numberIn("--timeout", 0.1, 1e5), 300)
    .addOption(new Option("--api-key <key>", "API key for the servers").env("OPENAI_API_KEY"));
  return addTableOptions(command).action(runBenchEmbeddings);
}

async function serversOf(flags: EmbeddingsFlags, command: Command): Promise<ServerUnderTest[]> {
  const peers = flags.peer.map((text) => urlTarget(text, flags));
  if (flags.url !== undefined) {
    const hint = "give the model to serve with --model, and running servers with --peer";
    refuseGiven(command, OF_STARTED, "no options of started servers with --url", hint);
    return [{ ...urlTarget(flags.url, flags), model: flags.model }, ...peers];
  }
  const { path } = await locateModel(flags.model, stagesTo(process.stderr));
  const { embeddingServers } = await import("../../bench/run/embeddings.js");
  const rest = { apiKey: flags.apiKey, timeoutMs: 1000 * flags.timeout };
  const launches = embeddingServers({ ...flags, modelPath: path, extra: words(flags.serverArgs) });
  return [...launches.map((launch) => ({ name: launch.name, launch, ...rest })), ...peers];
}

async function runBenchEmbeddings(flags: EmbeddingsFlags, command: Command): Promise<void> {
  const servers = await serversOf(flags, command);
  const { embeddingsJob } = await import("../../bench/run/embeddings.js");
  await measureServers(embeddingsJob(servers, { ...flags, durationS: flags.duration }), flags);
}
