/** The user's own questions, with which commands judge changes of a model. */
import type { EvalTask } from "../../quality/tasks.js";

/**
 * The families of a file of chats. Warns if code from models would run without confinement.
 * Throws file_unreadable, invalid_option, and confinement_missing.
 */
export async function questionsFrom(path: string, count: number): Promise<readonly EvalTask[]> {
  const [{ tasksOfFile }, { requireConfinementFor, UNCONFINED_WARNING }] = await Promise.all([
    import("../../quality/tasks.js"),
    import("../../quality/code-score.js"),
  ]);
  const tasks = tasksOfFile(path, undefined, count);
  const isConfined = await requireConfinementFor(tasks.flatMap(({ chats }) => chats.map(({ check }) => check)));
  if (!isConfined) process.stderr.write(`${UNCONFINED_WARNING}\n`);
  return tasks;
}
