/**
 * Sets up a cloud machine with cloud-init's user data, and a Packer image with the same steps, which each copy
 * completes at its first start.
 */
import { stringify } from "yaml";
import { debianSteps, installSteps, machineFiles } from "./bare-machine.js";
import { copiesOf, type ImageFile, type ImageFleet, type ImageRequest, textFile } from "./image-request.js";

interface UserData {
  readonly isHere: boolean;
  readonly steps: readonly (readonly string[])[];
  readonly more?: object;
}

function userData(fleet: ImageFleet, { isHere, steps, more = {} }: UserData): string {
  const data = {
    write_files: machineFiles(fleet).map(({ path, text }) => ({ path, permissions: "0644", content: text })),
    // `set -e` stops at the first failing step. cloud-init quotes the lists itself.
    runcmd: ["set -eu", ...debianSteps(fleet, isHere), ...steps],
    ...more,
  };
  return `#cloud-config\n# Rendered by millrace image render, for Debian 13 or later.\n${stringify(data, { lineWidth: 0 })}`;
}

export function cloudInitFiles(fleet: ImageFleet, { packages }: ImageRequest): ImageFile[] {
  return [textFile("user-data", userData(fleet, { isHere: true, steps: installSteps(fleet, packages, true) }))];
}

const IMAGES = "https://cloud.debian.org/images/cloud/trixie/latest";
const SEED = "/mnt/cidata";
/** The last step creates this file. */
const DONE = "/run/millrace-image-done";

/** The template is JSON instead of HCL, so that none of our values can be an HCL template. */
function packerTemplate({ slug, engine, numGpus }: ImageFleet, hasPackages: boolean): object {
  return {
    variable: { iso_checksum: { type: "string", default: `file:${IMAGES}/SHA512SUMS` } },
    source: {
      qemu: {
        debian: {
          // The genericcloud kernel lacks direct rendering, which NVIDIA's module needs.
          iso_url: `${IMAGES}/debian-13-${numGpus > 0 ? "generic" : "genericcloud"}-amd64.qcow2`,
          // biome-ignore lint/suspicious/noTemplateCurlyInString: Packer fills it in when it builds
          iso_checksum: "${var.iso_checksum}",
          disk_image: true,
          disk_size: engine === "millrace" ? "20G" : "60G",
          format: "qcow2",
          headless: true,
          accelerator: "kvm",
          memory: 4096,
          output_directory: "output",
          vm_name: `millrace-${slug}.qcow2`,
          // The machine needs no user, password or SSH: it installs itself from this disk and powers off.
          cd_label: "cidata",
          cd_files: ["cidata/user-data", "cidata/meta-data", ...(hasPackages ? ["packages"] : [])],
          communicator: "none",
          shutdown_timeout: "1h",
        },
      },
    },
    build: { sources: ["source.qemu.debian"] },
  };
}

/** A separate file, since releases before 1.7 have the plugin built in and reject this block. */
const PLUGINS = `packer {
  required_plugins {
    qemu = {
      source  = "github.com/hashicorp/qemu"
      version = ">= 1.1.0"
    }
  }
}
`;

export function packerFiles(fleet: ImageFleet, { packages }: ImageRequest): ImageFile[] {
  const hasPackages = packages.some(({ kind }) => kind === "file");
  const mount = [
    ["mkdir", "-p", SEED],
    ["mount", "-o", "ro", "/dev/disk/by-label/cidata", SEED],
  ];
  const seed = userData(fleet, {
    isHere: false,
    steps: [
      ...(hasPackages ? mount : []),
      ...installSteps(fleet, packages, false, `${SEED}/packages`),
      ["apt-get", "clean"],
      // Each copy generates its own API key.
      ["truncate", "--size", "0", "/etc/machine-id"],
      ["touch", DONE],
    ],
    // Power off only after the last step's success: the build fails if the machine stays on.
    more: { power_state: { mode: "poweroff", condition: ["test", "-e", DONE] } },
  });
  return [
    textFile("millrace.pkr.json", `${JSON.stringify(packerTemplate(fleet, hasPackages), null, 2)}\n`),
    textFile("plugins.pkr.hcl", PLUGINS),
    textFile("cidata/user-data", seed),
    textFile("cidata/meta-data", "instance-id: millrace-image\n"),
    ...copiesOf(packages),
  ];
}
