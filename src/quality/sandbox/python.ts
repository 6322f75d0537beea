/** Generated Python: in a python3 of its own that may read nothing but its standard library. */
import { spawnSync } from "node:child_process";
import { librariesOf, type Program } from "./jail.js";

const PROBE_TIMEOUT_MS = 10_000;
const MAX_MEMORY_BYTES = 1 << 29;
const CPU_SECONDS = 5;

/** Calls the function of a job, which is its standard input. The limits are those of the walls, for where there are none. */
const HARNESS = `
import io, json, os, sys

try:
    import resource
    for limit, most in (("AS", ${MAX_MEMORY_BYTES}), ("CPU", ${CPU_SECONDS}), ("NPROC", 0), ("FSIZE", 0), ("CORE", 0)):
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

job = json.load(sys.stdin)
# What an answer prints is no part of it.
output, sys.stdout, sys.stderr = sys.stdout, Nowhere(), Nowhere()
output.write(json.dumps(main(job)))
output.flush()
os._exit(0)
`;

/** Imported once, to learn which libraries the usual modules load. */
const USUAL_MODULES =
  "math cmath random re json datetime decimal fractions statistics heapq bisect array struct itertools functools " +
  "collections string operator copy typing dataclasses enum hashlib zlib unicodedata resource";

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

let program: Program | null | undefined;

/** Looked for once; undefined without python3. */
export function pythonProgram(): Program | undefined {
  program ??= findProgram();
  return program ?? undefined;
}

function findProgram(): Program | null {
  const { status, stdout } = spawnSync("python3", ["-I", "-S", "-c", DESCRIBE, USUAL_MODULES], {
    timeout: PROBE_TIMEOUT_MS,
    encoding: "utf8",
    env: { PATH: process.env.PATH },
  });
  if (status !== 0) return null;
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
