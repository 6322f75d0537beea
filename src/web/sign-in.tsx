/** The form that asks for a key, and who is signed in. */
import { useSignal } from "@preact/signals";
import { call, type Role, useKey, wantedKey } from "./api/client.js";
import { learnSession, session } from "./api/session.js";
import { isFleet } from "./fleet/server-kind.js";

/** @param onDone shows the page anew */
export function KeyForm({ role, onDone }: { readonly role: Role; onDone(): void }) {
  const error = useSignal<string | undefined>(undefined);
  const staysInTab = role === "client" || !isFleet.value;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const key = String(new FormData(form).get("key"));
    try {
      if (staysInTab) useKey(role, key);
      else {
        await call("session", { method: "POST", json: { key }, role: "nobody" });
        await learnSession();
      }
      wantedKey.value = undefined;
      onDone();
    } catch (thrown) {
      error.value = (thrown as Error).message;
      form.reset();
    }
  };
  const { ways = ["key"], provider } = session.value ?? {};
  return (
    <form class="key-form" id="key-form" onSubmit={(event) => void submit(event)}>
      {(role === "client" || ways.includes("key")) && (
        <>
          <label for="key">
            {role === "client"
              ? "API key"
              : staysInTab
                ? "The administrator's key"
                : "Your key as an operator of this gateway"}
          </label>
          <input id="key" name="key" type="password" autocomplete="off" required />
          <button type="submit">{staysInTab ? "Use it" : "Sign in"}</button>
        </>
      )}
      {role === "admin" && ways.includes("oidc") && <a href="sign-in">Sign in with {provider}</a>}
      {error.value !== undefined && (
        <span class="error" role="alert">
          {error.value}
        </span>
      )}
    </form>
  );
}

/** In the header of a gateway that has operators. */
export function SignedIn({ onDone }: { onDone(): void }) {
  const { signed_in, name, role, ways = [] } = session.value ?? {};
  const signOut = async () => {
    await call("session", { method: "DELETE", role: "admin" });
    await learnSession();
    onDone();
  };
  if (signed_in === true) {
    return (
      <span class="row" id="signed-in">
        {name} ({role})
        <button type="button" class="plain" onClick={() => void signOut()}>
          Sign out
        </button>
      </span>
    );
  }
  if (ways.length === 0) return null;
  return (
    <button
      type="button"
      class="plain"
      onClick={() => {
        wantedKey.value = "admin";
      }}
    >
      Sign in
    </button>
  );
}
