/** Renders the files of a target from a fleet. Equal inputs give equal files. */
import { MillraceError } from "../core/errors.js";
import { cloudInitFiles, packerFiles } from "./cloud-init.js";
import { composeFiles, dockerFiles } from "./docker.js";
import { type FleetSource, imageFleetOf } from "./image-fleet.js";
import type { ImageFile, ImageFleet, ImageRequest, ImageTarget } from "./image-request.js";
import { kubernetesFiles } from "./kubernetes.js";
import { systemdFiles } from "./systemd.js";

const RENDERERS: Readonly<Record<ImageTarget, (fleet: ImageFleet, request: ImageRequest) => ImageFile[]>> = {
  docker: dockerFiles,
  compose: composeFiles,
  "cloud-init": cloudInitFiles,
  packer: packerFiles,
  systemd: systemdFiles,
  kubernetes: kubernetesFiles,
};

export interface Rendered {
  readonly files: readonly ImageFile[];
  readonly fleet: ImageFleet;
}

/** Throws invalid_option, config_secret, or the first mistake in the file. */
export function renderImage(source: FleetSource, request: ImageRequest): Rendered {
  const isEmbedded = request.target === "cloud-init";
  const file = request.packages.find(({ kind }) => kind === "file");
  if (isEmbedded && file?.kind === "file") {
    throw new MillraceError(
      "invalid_option",
      `expected a version or a URL as --package for cloud-init, got ${file.path}`,
      {
        hint: "user data cannot contain a file: publish the package, or use the target packer or systemd",
      },
    );
  }
  const fleet = imageFleetOf(source, request);
  const files = RENDERERS[request.target](fleet, request);
  return { files: files.toSorted((a, b) => (a.path < b.path ? -1 : 1)), fleet };
}
