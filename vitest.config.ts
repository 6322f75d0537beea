import { defineConfig } from "vitest/config";

/**
 * Tests in these folders of src share a process with those before them, which loads each module once: a third of a second less for each file.
 * They leave the process as they found it. Tests that replace modules, load kernels, listen for signals, or look at all that the process holds run alone.
 */
const SHARED = "cli|core|fleet|formats|gateway|image|lab|model|observe|plan|prompts|serve|text";
const ALONE = [
  "src/cli/commands/serve-tls.test.ts",
  "src/gateway/batches/batch-run.test.ts",
  "src/image/disk/build-disk.test.ts",
  "src/observe/live/history.test.ts",
];
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
          include: [`src/@(${SHARED})/**/*.test.ts`],
          exclude: [...NEVER, ...ALONE],
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: "alone",
          include: [`src/!(${SHARED})/**/*.test.ts`, "models/**/*.test.ts", "test/**/*.test.ts", ...ALONE],
          exclude: NEVER,
        },
      },
    ],
  },
});
