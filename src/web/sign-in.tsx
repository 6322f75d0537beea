/** The form that asks for a key, and the display of who is signed in. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, type Asker, call, wantedSignIn } from "./api/client.js";
import { clientSignOuts, learnSession, type Session, session, takeSession } from "./api/session.js";
import { isFleet } from "./fleet/server-kind.js";
import { Menu } from "./parts/menu.js";

const labelOf = (asker: Asker): string => {
  if (asker === "client") return "API key";
  return isFleet.value ? "Your key as an operator of this gateway" : "The administrator's key";
};

/** The browser gets a cookie for the key; no copy of the key remains once the form is closed. */
async function signIn(key: string, asker: Asker): Promise<void> {
  const answer = await call("session", { method: "POST", json: { key }, as: "nobody" });
  const signedIn = (await answer.json()) as Session;
  takeSession(signedIn);
  const { role, is_client } = signedIn;
  const isEnough = asker === "client" ? is_client : role != null;
  if (isEnough === true) return;
  const [needed, got] = asker === "client" ? ["a client", "an operator"] : ["an operator", "a client"];
  throw new Error(`signed in as ${got}; this page needs the key of ${needed}`);
}

/** @param onDone renders the page again */
export function KeyForm({ asker, onDone }: { readonly asker: Asker; onDone(): void }) {
  const error = useSignal<string | undefined>(undefined);
  const input = useRef<HTMLInputElement>(null);
  // A form that the visitor opens takes the focus, and Escape returns it. A form that the page opens leaves the focus
  // where it is.
  const opener = useRef<HTMLButtonElement>(undefined);
  useEffect(() => {
    const focused = document.activeElement;
    if (!(focused instanceof HTMLButtonElement)) return;
    opener.current = focused;
    input.current?.focus();
  }, []);
  const onKeyDown = ({ key }: KeyboardEvent) => {
    if (key !== "Escape" || opener.current === undefined) return;
    wantedSignIn.value = undefined;
    opener.current.focus();
  };
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const key = String(new FormData(form).get("key"));
    form.reset();
    try {
      await signIn(key, asker);
      wantedSignIn.value = undefined;
      onDone();
    } catch (thrown) {
      // The server's own message is written for programs.
      const isRefused = thrown instanceof ApiError && thrown.status === 401;
      error.value = isRefused ? "This key is not valid here" : (thrown as Error).message;
    }
  };
  const { ways = ["key"], provider } = session.value ?? {};
  return (
    <form class="key-form" id="key-form" onSubmit={(event) => void submit(event)}>
      {(asker === "client" || ways.includes("key")) && (
        <>
          <label for="key">{labelOf(asker)}</label>
          <input ref={input} id="key" name="key" type="password" autocomplete="off" required onKeyDown={onKeyDown} />
          <button type="submit">Sign in</button>
        </>
      )}
      {asker === "operator" && ways.includes("oidc") && <a href="sign-in">Sign in with {provider}</a>}
      {error.value !== undefined && (
        <span class="error" role="alert">
          {error.value}
        </span>
      )}
    </form>
  );
}

/**
 * Shows both possible sign-ins in the header, so that nobody uses another person's unnoticed. The menu has the full
 * names and a sign-out for each.
 */
export function SignedIn({ onDone }: { onDone(): void }) {
  const { name, role, is_client, client, ways = [] } = session.value ?? {};
  const signOut = async (as: Asker) => {
    await call(`session?as=${as}`, { method: "DELETE", as: "nobody" });
    takeSession(undefined);
    if (as === "client") clientSignOuts.value++;
    await learnSession();
    onDone();
  };
  const operator = role != null ? `${name} (${role})` : undefined;
  const ofClient = client == null ? "with an API key" : `API key of ${client}`;
  const owner = is_client === true ? ofClient : undefined;
  const entry = (as: Asker, text: string) => (
    <div class="row">
      {text}
      <button type="button" class="plain" aria-label={`Sign out as ${as}`} onClick={() => void signOut(as)}>
        Sign out
      </button>
    </div>
  );
  const label = (
    <>
      {operator !== undefined && <span id="signed-in">{operator}</span>}
      {owner !== undefined && <span id="signed-in-client">{owner}</span>}
    </>
  );
  return (
    <>
      {(operator ?? owner) !== undefined && (
        <Menu label={label}>
          {operator !== undefined && entry("operator", operator)}
          {owner !== undefined && entry("client", owner)}
        </Menu>
      )}
      {role == null && ways.length > 0 && (
        <button
          type="button"
          class="plain"
          onClick={() => {
            wantedSignIn.value = "operator";
          }}
        >
          Sign in
        </button>
      )}
    </>
  );
}
