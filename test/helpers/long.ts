/**
 * Tests that take a part of their cases in `npm test`, and all of them in `npm run test:long`, which finds their files
 * by the import of this one.
 */

/** How many cases a test takes: `few` in `npm test`. */
export const cases = (few: number, all: number): number => (process.env.MILLRACE_LONG === "1" ? all : few);
