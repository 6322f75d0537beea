/** The parts of a disk's system besides millrace: a kernel, a boot loader, the network, and cloud-init. */
import type { ImageFleet } from "../image-request.js";
import { ROOT_LABEL } from "./layout.js";

/** The cloud kernel lacks direct rendering, which NVIDIA's module needs, and drivers of physical machines. */
const kernelOf = ({ numGpus }: ImageFleet): string => (numGpus > 0 ? "linux-image-amd64" : "linux-image-cloud-amd64");

export const systemPackages = (fleet: ImageFleet): readonly string[] => [
  "systemd-sysv",
  "systemd-resolved",
  // Resolves the machine's own name, which clouds choose.
  "libnss-myhostname",
  "dbus",
  kernelOf(fleet),
  "initramfs-tools",
  // cloud-init renders the network only if it finds `ip`.
  "iproute2",
  // Provides growpart and sfdisk, with which the root grows to the cloud's disk.
  "cloud-init",
  "cloud-guest-utils",
  "fdisk",
  "openssh-server",
  "sudo",
  "grub-pc-bin",
  "grub-efi-amd64-bin",
];

const lines = (...all: readonly string[]): string => `${all.join("\n")}\n`;

const entry = (title: string, suffix: string): string[] => [
  `menuentry "${title}" {`,
  // Debian points these links to its newest kernel and the one before, so the boot loader needs no update.
  `  linux /vmlinuz${suffix} root=LABEL=${ROOT_LABEL} ro console=tty0 console=ttyS0,115200`,
  `  initrd /initrd.img${suffix}`,
  "}",
];

const GRUB_CONFIG = lines(
  "set timeout=1",
  "serial --unit=0 --speed=115200",
  "terminal_input console serial",
  "terminal_output console serial",
  ...entry("millrace", ""),
  ...entry("millrace with the kernel before", ".old"),
);

const EARLY_CONFIG = "/boot/grub/early.cfg";

/** A drop-in for one of Debian's own units. */
const unitPart = (unit: string, ...text: readonly string[]) => ({
  path: `/etc/systemd/system/${unit}.d/millrace.conf`,
  text: lines(...text),
});

const WAIT_ONLINE = "/usr/lib/systemd/systemd-networkd-wait-online --any --timeout=30";

export const systemFiles: readonly { readonly path: string; readonly text: string }[] = [
  { path: "/etc/fstab", text: `LABEL=${ROOT_LABEL} / ext4 errors=remount-ro 0 1\n` },
  { path: "/etc/hostname", text: "millrace\n" },
  { path: "/boot/grub/grub.cfg", text: GRUB_CONFIG },
  {
    path: EARLY_CONFIG,
    text: lines(`search --no-floppy --label ${ROOT_LABEL} --set=root`, "set prefix=($root)/boot/grub"),
  },
  // cloud-init's own files sort before this one, and win. Without a cloud, it stays off.
  {
    path: "/etc/systemd/network/90-dhcp.network",
    text: lines("[Match]", "Type=ether", "", "[Network]", "DHCP=yes", "", "[DHCPv4]", "ClientIdentifier=mac"),
  },
  // The unit's own limit is two minutes, for which a machine without a network card would wait.
  unitPart("systemd-networkd-wait-online.service", "[Service]", "ExecStart=", `ExecStart=${WAIT_ONLINE}`),
  // cloud-init generates the keys: without a cloud, SSH stays off, which is not a failure.
  unitPart("ssh.service", "[Unit]", "ConditionPathExistsGlob=/etc/ssh/ssh_host_*_key"),
];

const MODULES = "part_gpt ext2 search search_label normal configfile linux serial terminal minicmd echo".split(" ");

const core = (format: string, output: string, ...more: readonly string[]): string[] => [
  "grub-mkimage",
  "--format",
  format,
  "--output",
  output,
  "--config",
  EARLY_CONFIG,
  "--prefix",
  "/boot/grub",
  ...MODULES,
  ...more,
];

/** Path in the image's own root. */
export const BOOT_SECTOR = "/usr/lib/grub/i386-pc/boot.img";
export const BIOS_CORE = "/boot/grub/core.img";
/** Firmware without its own entry starts EFI/BOOT/BOOTX64.EFI. */
export const EFI_FOLDER = "/boot/grub/EFI";

/** Steps in the image's root, after all installations. */
export const lastSteps: readonly (readonly string[])[] = [
  core("i386-pc", BIOS_CORE, "biosdisk"),
  ["mkdir", "-p", `${EFI_FOLDER}/BOOT`],
  core("x86_64-efi", `${EFI_FOLDER}/BOOT/BOOTX64.EFI`, "all_video"),
  ["systemctl", "enable", "systemd-networkd.service", "systemd-resolved.service", "ssh.service"],
  ["ln", "-sf", "../run/systemd/resolve/stub-resolv.conf", "/etc/resolv.conf"],
  // Each copy generates its own keys at its first boot.
  ["sh", "-c", "rm -f /etc/ssh/ssh_host_*"],
  ["truncate", "--size", "0", "/etc/machine-id"],
];
