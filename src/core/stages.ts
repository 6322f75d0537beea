/** Progress of long work, stage by stage. The work reports it; commands show it. */

export interface Stage {
  /** @param text how far the stage is */
  update(text: string): void;
  /** @param text the stage's result */
  done(text: string): void;
  /** A remark that is no error. */
  note(text: string): void;
}

/** Begins a stage of this name. */
export type StartStage = (name: string) => Stage;

/** Drops progress and keeps remarks. */
export function quietStages(onNote: (text: string) => void): StartStage {
  return () => ({ update: () => {}, done: () => {}, note: onNote });
}

export const silentStages: StartStage = quietStages(() => {});
