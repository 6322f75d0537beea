import { expect, test } from "vitest";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { availableMemory } from "./available-memory.js";

test("cached files are memory that can be had, and the tightest of the nested cgroups counts", () => {
  const root = tempTree({
    "proc/self/cgroup": "0::/pod/container\n",
    "sys/fs/cgroup/pod/container/memory.max": "max\n",
    "sys/fs/cgroup/pod/container/memory.current": "900\n",
    "sys/fs/cgroup/pod/memory.max": "1000\n",
    "sys/fs/cgroup/pod/memory.current": "990\n",
    "sys/fs/cgroup/pod/memory.stat": "anon 100\nfile 800\nactive_anon 7\ninactive_file 600\nactive_file 190\n",
  });
  expect(availableMemory(root, 5000)).toBe(800);
  expect(availableMemory(root, 300)).toBe(300);
});

test("version 1 cgroups, and none", () => {
  const root = tempTree({
    "proc/self/cgroup": "9:cpu,memory:/box\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "4000\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1000\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "700\n",
    "sys/fs/cgroup/memory/box/memory.stat": "inactive_file 1\ntotal_inactive_file 250\ntotal_active_file 50\n",
  });
  expect(availableMemory(root, 5000)).toBe(600);
  expect(availableMemory(tempTree({}), 5000)).toBe(5000);
});
