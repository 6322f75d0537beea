/** Files and an installer for an existing machine. */
import { shellWord } from "../core/shell-word.js";
import { debianSteps, installSteps, machineFiles } from "./bare-machine.js";
import { copiesOf, type ImageFile, type ImageFleet, type ImageRequest, textFile } from "./image-request.js";
import { containerHost } from "./nvidia.js";

const command = (words: readonly string[]): string => words.map(shellWord).join(" ");

/** For a machine with Docker: installs NVIDIA's driver, and its toolkit for containers. */
export const gpuHostFiles = ({ numGpus }: ImageFleet): ImageFile[] => {
  if (numGpus === 0) return [];
  const head = [
    "#!/bin/sh",
    "# Rendered by millrace image render, for a host of Debian 13 with Docker. Run as root.",
    "set -eu",
  ];
  return [
    { ...textFile("gpu-host.sh", `${[...head, ...containerHost.map(command)].join("\n")}\n`), isExecutable: true },
  ];
};

/** A linear script without branches; millrace itself makes the decisions. */
function installer(fleet: ImageFleet, { packages }: ImageRequest): string {
  return `${[
    "#!/bin/sh",
    "# Rendered by millrace image render, for Debian 13 or later. Run as root.",
    "set -eu",
    'cd "$(dirname "$0")"',
    ...debianSteps(fleet).map(command),
    ...machineFiles(fleet).map(({ path }) => command(["install", "-D", "-m", "0644", `root${path}`, path])),
    ...installSteps(fleet, packages, true).map(command),
  ].join("\n")}\n`;
}

export function systemdFiles(fleet: ImageFleet, request: ImageRequest): ImageFile[] {
  return [
    { ...textFile("install.sh", installer(fleet, request)), isExecutable: true },
    ...machineFiles(fleet).map(({ path, text }) => textFile(`root${path}`, text)),
    ...copiesOf(request.packages),
  ];
}
