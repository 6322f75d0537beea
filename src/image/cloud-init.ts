/** A machine of a cloud from nothing: cloud-init's user data; and Packer's image of the same, which the first start of each copy finishes. */
import { stringify } from "yaml";
import { debianSteps, installSteps, machineFiles } from "./bare-machine.js";
import { copiesOf, type ImageFile, type ImageFleet, type ImageRequest, textFile } from "./image-request.js";

interface UserData {
  readonly steps: readonly (readonly string[])[];
  readonly more?: object;
}

function userData(fleet: ImageFleet, { steps, more = {} }: UserData): string {
  const data = {
    write_files: machineFiles(fleet).map(({ path, text }) => ({ path, permissions: "0644", content: text })),
    // The first line ends everything with the first step that fails; lists are quoted by cloud-init itself.
    runcmd: ["set -eu", ...debianSteps(fleet), ...steps],
    ...more,
  };
  return `#cloud-config\n# Rendered by millrace image render, for Debian 13 or later.\n${stringify(data, { lineWidth: 0 })}`;
}

export function cloudInitFiles(fleet: ImageFleet, { packages }: ImageRequest): ImageFile[] {
  return [textFile("user-data", userData(fleet, { steps: installSteps(fleet, packages, true) }))];
}

const IMAGES = "https://cloud.debian.org/images/cloud/trixie/latest";
const SEED = "/mnt/cidata";
/** Touched by the last step. */
const DONE = "/run/millrace-image-done";

/** JSON in place of HCL's own syntax: nothing of ours in it is a template of HCL's. */
function packerTemplate({ slug, engine }: ImageFleet, hasPackages: boolean): object {
  return {
    variable: { iso_checksum: { type: "string", default: `file:${IMAGES}/SHA512SUMS` } },
    source: {
      qemu: {
        debian: {
          iso_url: `${IMAGES}/debian-13-genericcloud-amd64.qcow2`,
          // biome-ignore lint/suspicious/noTemplateCurlyInString: Packer fills it in when it builds, not this program
          iso_checksum: "${var.iso_checksum}",
          disk_image: true,
          disk_size: engine === "millrace" ? "20G" : "60G",
          format: "qcow2",
          headless: true,
          accelerator: "kvm",
          memory: 4096,
          output_directory: "output",
          vm_name: `millrace-${slug}.qcow2`,
          // No user, no password, no SSH: the machine installs itself from this disk and powers off.
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

/** In a file of its own: releases before 1.7 have the plugin built in, and do not know the block. */
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
    steps: [
      ...(hasPackages ? mount : []),
      ...installSteps(fleet, packages, false, `${SEED}/packages`),
      ["apt-get", "clean"],
      // Each copy makes its own.
      ["truncate", "--size", "0", "/etc/machine-id"],
      ["touch", DONE],
    ],
    // Without it a step failed, and a machine that stays on is a build that fails.
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
