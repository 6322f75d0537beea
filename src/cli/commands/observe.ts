/** `millrace observe render`: configuration files for Prometheus, Grafana and OpenTelemetry. */
import { isAbsolute } from "node:path";
import { Command } from "commander";
import { optionError } from "../../core/option-error.js";
import { COLLECTOR_PORT, KINDS } from "../../observe/watched.js";
import { numberIn, oneOf } from "../flags/option-values.js";

interface RenderFlags {
  readonly kind: (typeof KINDS)[number];
  readonly targets: readonly string[];
  readonly job: string;
  readonly ttftMs: number;
  readonly otlpEndpoint?: string;
  readonly tenantsKeyFile?: string;
  readonly out: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export function observeCommand(): Command {
  const render = new Command("render")
    .description(
      "Write a Grafana dashboard, Prometheus' configuration and alerts, and an OpenTelemetry collector's configuration.",
    )
    .option("--kind <name>", `${KINDS.join(" or ")}: the watched program`, oneOf("--kind", KINDS), "server")
    .option("--targets <list>", "host:port of each, separated by commas", targetsFrom, ["127.0.0.1:8000"])
    .option("--job <name>", "Prometheus' job label: letters, digits and ._/-", jobFrom, "millrace")
    .option(
      "--ttft-ms <n>",
      "95 of 100 requests are to have their first token within it: an end of the histogram's buckets",
      numberIn("--ttft-ms", 1, 600_000),
      500,
    )
    .option(
      "--otlp-endpoint <url>",
      `also write a collector's file, which sends traces and metrics there; the collector itself listens on port ${COLLECTOR_PORT}`,
      endpointFrom,
    )
    .option(
      "--tenants-key-file <path>",
      "with --kind fleet, also by tenant: file with an operator's key, as Prometheus finds it",
      keyFileFrom,
    )
    .requiredOption("--out <folder>", "folder to write to")
    .option("--force", "write into a folder that is not empty")
    .option("--json", "print one JSON object")
    .action(runRender);
  return new Command("observe").description("Watch servers and fleets with your own tools.").addCommand(render);
}

const TARGET = /^([\w.-]+|\[[\da-f:]+\]):\d{1,5}$/i;

function targetsFrom(text: string): readonly string[] {
  const targets = text.split(",").map((each) => each.trim());
  const isPort = (text: string): boolean => Number(text) >= 1 && Number(text) <= 65_535;
  const wrong = targets.find((each) => !TARGET.test(each) || !isPort(each.slice(each.lastIndexOf(":") + 1)));
  if (wrong === undefined) return targets;
  throw optionError("--targets", "host:port each, without http:// and paths", wrong);
}

function jobFrom(text: string): string {
  if (/^[\w./-]+$/.test(text)) return text;
  throw optionError("--job", "of letters, digits and ._/-", text);
}

/** Absolute, since Prometheus resolves paths from its configuration, which moves. */
function keyFileFrom(text: string): string {
  if (isAbsolute(text) && !text.includes("$")) return text;
  throw optionError("--tenants-key-file", "an absolute path without $", text);
}

function endpointFrom(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw optionError("--otlp-endpoint", "an http URL", text);
  const isHere = /^(localhost\.?|127\.[\d.]+|\[::1\]|0\.0\.0\.0)$/.test(url.hostname);
  if (!isHere || url.port !== String(COLLECTOR_PORT)) return url.href.replace(/(?<!\/)\/$/, "");
  throw optionError("--otlp-endpoint", `another place than the collector's own port ${COLLECTOR_PORT}`, text);
}

async function runRender({ ttftMs, otlpEndpoint, out, force, json, ...watched }: RenderFlags): Promise<void> {
  const [{ renderObserve }, { bucketOf }, { writeFiles }, { formatTable }] = await Promise.all([
    import("../../observe/render.js"),
    import("../../observe/watched.js"),
    import("../../image/write-files.js"),
    import("../output/format.js"),
  ]);
  if (watched.tenantsKeyFile !== undefined && watched.kind !== "fleet") {
    throw optionError("--tenants-key-file", "file of a gateway, with --kind fleet", "--kind server");
  }
  const files = renderObserve({ ...watched, ttftSeconds: bucketOf(ttftMs / 1000) }, otlpEndpoint);
  const written = writeFiles(
    out,
    files.map(({ path, text }) => ({ path, content: { text } })),
    force === true,
  );
  if (json === true) {
    process.stdout.write(`${JSON.stringify({ out, files: written })}\n`);
    return;
  }
  process.stdout.write(
    `${formatTable([["file", "use"], ...files.map(({ path, use }) => [path, use])])}\n\nwritten to ${out}\n`,
  );
}
