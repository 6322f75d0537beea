/** Runs generated Python in a python3 process that can only read its standard library. */
import { spawnSync } from "node:child_process";
import { type ConfinedProgram, librariesOf } from "./jail.js";

const PROBE_TIMEOUT_MS = 10_000;
const MAX_MEMORY_BYTES = 1 << 29;
const CPU_SECONDS = 5;

/**
 * System calls that no namespace restricts, by machine: sockets to the hypervisor (AF_VSOCK ignores network namespaces)
 * and all other sockets; kernel keyrings, which are inherited; limits, since a core limit of 0 sends a crash's memory
 * to the host's crash handler; memory without a limit; the kernel's log; and the parts of the kernel with the most
 * known holes. In this order: socket socketpair keyctl add_key request_key prlimit64 setrlimit clone clone3 execve
 * execveat ptrace unshare setns mount bpf perf_event_open userfaultfd io_uring_setup memfd_create process_vm_readv
 * process_vm_writev pidfd_open pidfd_getfd open_by_handle_at sync shmget msgget semget mq_open syslog.
 */
const REFUSED_CALLS = {
  x86_64:
    "41 53 250 248 249 302 160 56 435 59 322 101 272 308 165 321 298 323 425 319 310 311 434 438 304 162 29 68 64 240 103",
  aarch64:
    "198 199 219 217 218 261 164 220 435 221 281 117 97 268 40 280 241 282 425 279 270 271 434 438 265 81 194 186 190 180 116",
};
/** The kernel's numbers of the architectures. */
const MACHINES = { x86_64: 0xc000003e, aarch64: 0xc00000b7 };
/** Further calls that only x86_64 has: fork, vfork. Calls from OTHER_ABI on belong to another ABI. */
const FORKS = "57 58";
const OTHER_ABI = 0x40000000;

/** Calls the function of the job on standard input. The limits repeat the jail's, for systems without one. */
const HARNESS = `
import io, json, os, sys

def refuse_calls():
    import ctypes, struct
    machine = os.uname().machine
    calls = ${JSON.stringify(REFUSED_CALLS)}[machine].split()
    if machine == "x86_64":
        calls += "${FORKS}".split()
    # BPF: load the machine, else refuse; load the call's number; refuse those from the other ABI on and those of the list; allow the rest.
    LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
    ALLOW, REFUSE = 0x7FFF0000, 0x00050001
    code = [(LOAD, 0, 0, 4), (EQUAL, 0, len(calls) + 3, ${JSON.stringify(MACHINES)}[machine]), (LOAD, 0, 0, 0)]
    code.append((AT_LEAST, len(calls) + 1, 0, ${OTHER_ABI}))
    code += [(EQUAL, len(calls) - index, 0, int(call)) for index, call in enumerate(calls)]
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    filter = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2
    if libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(SECCOMP, FILTER, filter, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")

try:
    import resource
    for limit, most in (("AS", ${MAX_MEMORY_BYTES}), ("CPU", ${CPU_SECONDS}), ("NPROC", 0), ("FSIZE", 0), ("CORE", 1)):
        resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (most, most))
except (ImportError, AttributeError, OSError, ValueError):
    pass  # a system without them

class Nowhere(io.TextIOBase):
    def write(self, text):
        return len(text)

def main(job):
    try:
        scope = {"__name__": "answer"}
        exec(compile(job["code"], "answer", "exec"), scope)
        function = scope[job["name"]]
    except BaseException as error:
        return {"problem": type(error).__name__ + ": " + str(error)}
    results = []
    for args in job["calls"]:
        try:
            results.append({"value": json.loads(json.dumps(function(*args), allow_nan=False))})
        except BaseException as error:
            results.append({"problem": type(error).__name__ + ": " + str(error)})
    return results

if sys.platform == "linux":
    refuse_calls()
job = json.load(sys.stdin)
# Printed text is no part of the answer.
output, sys.stdout, sys.stderr = sys.stdout, Nowhere(), Nowhere()
output.write(json.dumps(main(job)))
output.flush()
os._exit(0)
`;

/** Modules that are imported once, to find the libraries that they load. */
const USUAL_MODULES =
  "math cmath random re json datetime decimal fractions statistics heapq bisect array struct itertools functools " +
  "collections string operator copy typing dataclasses enum hashlib zlib unicodedata resource ctypes sqlite3";

const DESCRIBE = `
import importlib, json, sys, sysconfig
for name in sys.argv[1].split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
paths = sorted({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
modules = [getattr(module, "__file__", None) or "" for module in sys.modules.values()]
print(json.dumps([sys.executable, paths, [path for path in modules if path.endswith(".so")]]))
`;

let program: ConfinedProgram | null | undefined;

/** Searched once, and again only after a timeout; undefined without python3. */
export function pythonProgram(): ConfinedProgram | undefined {
  if (program === undefined) program = findProgram();
  return program ?? undefined;
}

/** @returns null: no python3; undefined: timed out */
function findProgram(): ConfinedProgram | null | undefined {
  const { status, stdout, error } = spawnSync("python3", ["-I", "-S", "-c", DESCRIBE, USUAL_MODULES], {
    timeout: PROBE_TIMEOUT_MS,
    encoding: "utf8",
    env: { PATH: process.env.PATH },
  });
  if (status !== 0) return (error as NodeJS.ErrnoException | undefined)?.code === "ETIMEDOUT" ? undefined : null;
  const [command, folders, modules] = JSON.parse(stdout) as [string, string[], string[]];
  const libraries = librariesOf([command, ...modules]);
  const isWithin = (path: string): boolean => folders.some((folder) => path.startsWith(`${folder}/`));
  return {
    command,
    args: ["-I", "-S", "-c", HARNESS],
    reads: [command, ...folders, ...libraries.filter((path) => !isWithin(path))],
    limits: { numThreads: 1, dataBytes: MAX_MEMORY_BYTES, addressBytes: MAX_MEMORY_BYTES, cpuSeconds: CPU_SECONDS },
  };
}
