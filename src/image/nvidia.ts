/**
 * NVIDIA's driver and container toolkit on Debian 13, of pinned versions (November 2026). Two parts come from NVIDIA's
 * own pages: the steps of the toolkit's apt page,
 * https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html ("With apt"), and the
 * existence of pinning packages, https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/ ("Version
 * locking"). The rest follows public repositories: the address of the repository for Debian 13, the keyring's version,
 * the branch, and the packages of a driver without a display.
 */

type Step = readonly string[];

/**
 * A branch with long-term support; the engines' wheels are built for its CUDA 13.0, and NVIDIA's pinning package keeps
 * the machine on it.
 */
const DRIVER_BRANCH = "580";
const TOOLKIT_VERSION = "1.19.0-1";

const KEYRING = "cuda-keyring_1.1-1_all.deb";
const CUDA_REPOSITORY = "https://developer.download.nvidia.com/compute/cuda/repos/debian13/x86_64";
const TOOLKIT_REPOSITORY = "https://nvidia.github.io/libnvidia-container";
const TOOLKIT_KEY = "/usr/share/keyrings/nvidia-container-toolkit-keyring.asc";

const install = (...packages: readonly string[]): Step => [
  "apt-get",
  "install",
  "--yes",
  "--no-install-recommends",
  ...packages,
];

/** 0x10de is NVIDIA's number in the PCI list of vendors. */
const DEVICE_CHECK: Step = [
  "sh",
  "-c",
  "grep -qs 0x10de /sys/bus/pci/devices/*/vendor || { echo 'error [gpu_missing]: expected an NVIDIA GPU on the PCI bus, got none. hint: run this on a machine with a GPU, or attach one; nothing was installed' >&2; exit 1; }",
];

/**
 * @param kernel the kernel to build the module for: the running one, or the newest in an image that is built elsewhere
 */
const driverSteps = (kernel: "running" | "newest"): readonly Step[] => [
  kernel === "newest"
    ? install("linux-headers-amd64", "curl")
    : ["sh", "-c", 'apt-get install --yes --no-install-recommends "linux-headers-$(uname -r)" curl'],
  [
    "curl",
    "--fail",
    "--silent",
    "--show-error",
    "--retry",
    "3",
    "--output",
    `/tmp/${KEYRING}`,
    `${CUDA_REPOSITORY}/${KEYRING}`,
  ],
  ["dpkg", "--install", `/tmp/${KEYRING}`],
  ["apt-get", "update"],
  // First, so that apt takes the driver from this branch.
  install(`nvidia-driver-pinning-${DRIVER_BRANCH}`),
  // Without a display: CUDA's libraries, nvidia-smi, and the open kernel module, which supports every GPU since Turing.
  install("nvidia-driver-cuda", "nvidia-kernel-open-dkms"),
];

/** For a machine with its GPU: refuses a machine without one, before any installation. */
export const driverOnMachine: readonly Step[] = [
  DEVICE_CHECK,
  ["apt-get", "update"],
  ...driverSteps("running"),
  ["modprobe", "nvidia"],
  // Fails, with the reason, if driver and device do not match.
  ["nvidia-smi"],
];

/** For an image, which gets its GPU at its first boot; `millrace boot` checks for it. */
export const driverInImage: readonly Step[] = [["apt-get", "update"], ...driverSteps("newest"), ["apt-get", "clean"]];

const toolkitPackages = [
  "nvidia-container-toolkit",
  "nvidia-container-toolkit-base",
  "libnvidia-container-tools",
  "libnvidia-container1",
].map((name) => `${name}=${TOOLKIT_VERSION}`);

/** For a machine with Docker, for containers with GPUs. */
export const containerHost: readonly Step[] = [
  ...driverOnMachine,
  ["curl", "--fail", "--silent", "--show-error", "--output", TOOLKIT_KEY, `${TOOLKIT_REPOSITORY}/gpgkey`],
  [
    "sh",
    "-c",
    `echo 'deb [signed-by=${TOOLKIT_KEY}] ${TOOLKIT_REPOSITORY}/stable/deb/$(ARCH) /' > /etc/apt/sources.list.d/nvidia-container-toolkit.list`,
  ],
  ["apt-get", "update"],
  install(...toolkitPackages),
  ["nvidia-ctk", "runtime", "configure", "--runtime=docker"],
  ["systemctl", "restart", "docker"],
];
