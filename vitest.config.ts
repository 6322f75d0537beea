import { defineConfig } from "vitest/config";

/**
 * Tests of src share a process with those before them, which loads each module once: a third of a second less for each
 * file. They leave the process as they found it. Three kinds have a process of their own: those of folders that load
 * kernels, those of whole processes, and the files below, which replace modules or globals, listen for signals or send
 * them to all who listen, or look at all that the process holds.
 */
const KERNELS = "backend|compress|convert|engine";
const ALONE = [
  "src/bench/engine/*.test.ts",
  "src/bench/run/ablated-servers.test.ts",
  "src/bench/run/bench.test.ts",
  "src/boot/first-bench.test.ts",
  "src/cli/commands/batch.test.ts",
  "src/cli/commands/eval.test.ts",
  "src/cli/commands/serve-tls.test.ts",
  "src/cli/process/stop-signal.test.ts",
  "src/gateway/batches/batch-run.test.ts",
  "src/image/disk/build-disk.test.ts",
  "src/observe/live/history.test.ts",
  "src/quality/sandbox/looked-for-once.test.ts",
  "src/web/chat/chat-shelf.test.ts",
  "src/web/chat/feedback.test.ts",
  "src/web/chat/search.test.ts",
];
const E2E = "test/e2e/**/*.test.ts";
const NEVER = ["**/node_modules/**", "dist/**", ...(process.env.MILLRACE_LONG === "1" ? [] : ["**/*.long.test.ts"])];

export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // What is polled happens soon, but not within a second on a machine that is busy with other things.
    expect: { poll: { timeout: 20_000 } },
    pool: "forks",
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        test: {
          name: "shared",
          include: [`src/!(${KERNELS})/**/*.test.ts`],
          exclude: [...NEVER, ...ALONE],
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: "alone",
          include: [`src/@(${KERNELS})/**/*.test.ts`, "models/**/*.test.ts", "test/**/*.test.ts", ...ALONE],
          exclude: [...NEVER, E2E],
        },
      },
      {
        extends: true,
        // Left out by `npm test`, and run by `npm run test:e2e`: scripts/test.js.
        test: { name: "e2e", include: [E2E], exclude: NEVER },
      },
    ],
  },
});
