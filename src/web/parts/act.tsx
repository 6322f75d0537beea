/** Acts of a visitor on the server, and their results. */
import { useSignal } from "@preact/signals";
import { errorText } from "./load.js";

interface Acts {
  /** Why the last act failed. It stays until the next one; what is loaded again would wipe it off. */
  readonly problem: string | undefined;
  /** The result of the last act, in words; undefined: the act has none. */
  readonly said: string | undefined;
  /** @returns whether it is done */
  act(what: () => Promise<unknown>, sayDone?: string): Promise<boolean>;
  /** Something is not asked of the server, since it could only refuse it. */
  refuse(why: string): void;
}

/** @param reload called after each act that is done */
export function useAct(reload: () => Promise<unknown>): Acts {
  const problem = useSignal<string | undefined>(undefined);
  const said = useSignal<string | undefined>(undefined);
  const act = async (what: () => Promise<unknown>, sayDone?: string): Promise<boolean> => {
    [problem.value, said.value] = [undefined, undefined];
    try {
      const result = await what();
      said.value = typeof result === "string" ? result : sayDone;
      await reload();
      return true;
    } catch (thrown) {
      problem.value = errorText(thrown);
      return false;
    }
  };
  const refuse = (why: string) => {
    [problem.value, said.value] = [why, undefined];
  };
  return { problem: problem.value, said: said.value, act, refuse };
}

export function ActSays({ problem, said }: Pick<Acts, "problem" | "said">) {
  return (
    <>
      {problem !== undefined && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      {said !== undefined && (
        <p class="notice" role="status">
          {said}
        </p>
      )}
    </>
  );
}
