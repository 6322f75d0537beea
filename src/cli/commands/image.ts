/** `millrace image render`: writes the files with which a machine, a container or a cluster serves a planned fleet. */
import { Command } from "commander";
import { type ImageTarget, TARGETS } from "../../image/image-request.js";
import { addImageOptions, type ImageFlags } from "../flags/image-flags.js";
import { oneOf } from "../flags/option-values.js";

interface RenderFlags extends ImageFlags {
  readonly target: ImageTarget;
  readonly out: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

export function imageCommand(): Command {
  const render = new Command("render")
    .description("Write the files of a machine that boots into a measured endpoint, from a preset or a millrace.yaml.")
    .requiredOption("--target <name>", TARGETS.join(", "), oneOf("--target", TARGETS))
    .requiredOption("--preset <name|file>", "name of a preset, or a millrace.yaml such as millrace plan --yaml writes")
    .requiredOption("--out <folder>", "folder to write to")
    .option("--force", "write into a folder that is not empty")
    .option("--json", "print one JSON object");
  return new Command("image")
    .description("Make container images, machines and clusters from a plan.")
    .addCommand(addImageOptions(render).action(runRender));
}

async function runRender(flags: RenderFlags): Promise<void> {
  const [{ requestOf, sourceOf }, { renderImage }, { writeFiles }, { nextSteps }, { formatTable }, { formatBytes }] =
    await Promise.all([
      import("../flags/image-flags.js"),
      import("../../image/render.js"),
      import("../../image/write-files.js"),
      import("../../image/next-steps.js"),
      import("../output/format.js"),
      import("../../core/quantities.js"),
    ]);
  const request = requestOf(flags);
  const { files, fleet } = renderImage(sourceOf(flags), request);
  const written = writeFiles(flags.out, files, flags.force === true);
  const next = nextSteps(flags, fleet, request);
  if (flags.json === true) {
    process.stdout.write(`${JSON.stringify({ target: flags.target, out: flags.out, files: written, next })}\n`);
    return;
  }
  const rows = written.map(({ path, numBytes }) => [path, formatBytes(numBytes)]);
  // Not in columns: one long command would push all comments off the screen.
  const steps = next.map(({ command, about }) => `  # ${about}\n  ${command}\n`).join("\n");
  process.stdout.write(`${formatTable([["file", "size"], ...rows])}\n\nwritten to ${flags.out}. Next:\n\n${steps}`);
}
