/**
 * `millrace image`: renders the files with which a machine, a container or a cluster serves a planned fleet, and builds
 * such a disk.
 */
import { Command } from "commander";
import { type ImageTarget, TARGETS } from "../../image/image-request.js";
import {
  addClusterOptions,
  addImageOptions,
  diskName,
  type ImageFlags,
  mirrorUrl,
  suiteName,
} from "../flags/image-flags.js";
import { byteSize, oneOf } from "../flags/option-values.js";

interface RenderFlags extends ImageFlags {
  readonly target: ImageTarget;
  readonly out: string;
  readonly force?: boolean;
  readonly json?: boolean;
}

interface BuildFlags extends Omit<ImageFlags, "target" | "image" | "nodes"> {
  readonly out: string;
  readonly size?: number;
  readonly suite: string;
  readonly mirror?: string;
  readonly force?: boolean;
}

export function imageCommand(): Command {
  const preset = [
    "--preset <name|file>",
    "name of a preset, or a millrace.yaml such as millrace plan --yaml writes",
  ] as const;
  const render = new Command("render")
    .description("Write the files of a machine that boots into a measured endpoint, from a preset or a millrace.yaml.")
    .requiredOption("--target <name>", TARGETS.join(", "), oneOf("--target", TARGETS))
    .requiredOption(...preset)
    .requiredOption("--out <folder>", "folder to write to")
    .option("--force", "write into a folder that is not empty")
    .option("--json", "print one JSON object");
  const build = new Command("build")
    .description(
      "Build a disk that boots into a measured endpoint, by BIOS or UEFI: in QEMU, or imported into a cloud. Needs root on Debian or Ubuntu.",
    )
    .requiredOption(...preset)
    .requiredOption("--out <disk>", "file to write: .qcow2 or .raw", diskName)
    .option(
      "--size <size>",
      "size of the disk, such as 4GiB; at its first boot, the root grows to the disk it finds (default: 2GiB, with a GPU engine 32GiB)",
      byteSize("--size"),
    )
    .option("--suite <name>", "release of Debian", suiteName, "trixie")
    .option("--mirror <url>", "mirror of Debian (default: deb.debian.org, with security updates)", mirrorUrl)
    .option("--force", "write over the disk");
  return new Command("image")
    .description("Make container images, machines and clusters from a plan.")
    .addCommand(addClusterOptions(addImageOptions(render)).action(runRender))
    .addCommand(addImageOptions(build).action(runBuild));
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
  // Without columns, since one long command would push all comments off the screen.
  const steps = next.map(({ command, about }) => `  # ${about}\n  ${command}\n`).join("\n");
  process.stdout.write(`${formatTable([["file", "size"], ...rows])}\n\nwritten to ${flags.out}. Next:\n\n${steps}`);
}

async function runBuild(flags: BuildFlags): Promise<void> {
  const [
    { assertFree, requestOf, sourceOf },
    { imageFleetOf },
    { buildDisk },
    { stagesTo },
    { formatBytes },
    { untilStopped },
  ] = await Promise.all([
    import("../flags/image-flags.js"),
    import("../../image/image-fleet.js"),
    import("../../image/disk/build-disk.js"),
    import("../output/stages.js"),
    import("../../core/quantities.js"),
    import("../process/stop-signal.js"),
  ]);
  // A disk has the same contents as a machine set up by the systemd target.
  const machine = { ...flags, target: "systemd", nodes: 1 } as const;
  const request = requestOf(machine);
  const fleet = imageFleetOf(sourceOf(machine), request);
  assertFree(flags.out, flags.force === true);
  const { suite, mirror, out } = flags;
  const sizeBytes = flags.size ?? (fleet.engine === "millrace" ? 2 : 32) * 2 ** 30;
  const disk = { out, suite, mirror, sizeBytes };
  await untilStopped(async (signal) => {
    const numBytes = await buildDisk(fleet, request, disk, stagesTo(process.stderr), signal);
    process.stdout.write(`${out} (${formatBytes(numBytes)})\n`);
  }, "the unfinished disk is removed");
}
