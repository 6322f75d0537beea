/** `millrace orgs`, `teams` and `keys`: the users of a running gateway, and their limits. */
import { Command } from "commander";
import {
  addAdminFlags,
  addSettingFlags,
  type SettingFlags,
  secondsIn,
  settingsOf,
  withoutNulls,
} from "../flags/tenant-flags.js";
import { type Json, jsonText } from "../output/format.js";
import { newKeyText, scopeTable, scopeText } from "../output/tenant-text.js";
import { AdminClient, type AdminFlags } from "../process/admin-client.js";

interface Kind {
  readonly path: "/orgs" | "/teams" | "/keys";
  readonly one: string;
  readonly many: string;
}

interface ListFlags extends AdminFlags {
  readonly org?: string;
  readonly team?: string;
  readonly all?: boolean;
}

interface ChangeFlags extends AdminFlags, SettingFlags {
  readonly org?: string;
  readonly team?: string;
  readonly expires?: string;
  readonly grace?: string;
}

const ORGS: Kind = { path: "/orgs", one: "an organisation", many: "organisations" };
const TEAMS: Kind = { path: "/teams", one: "a team", many: "teams" };
const KEYS: Kind = { path: "/keys", one: "a key", many: "keys" };

export function orgsCommand(): Command {
  const create = changing("create", "Make an organisation, which teams and keys belong to.")
    .argument("<id>", "letters, digits, ., _ and -")
    .option("--name <name>", "name for people")
    .action((id: string, flags: ChangeFlags) => runCreate(ORGS, { id }, flags));
  return group("orgs", "Manage the organisations of a gateway.", [create, ...common(ORGS, "delete")]);
}

export function teamsCommand(): Command {
  const create = changing("create", "Make a team of an organisation.")
    .argument("<id>", "organisation, slash and name, such as acme/search")
    .option("--name <name>", "name for people")
    .action((id: string, flags: ChangeFlags) => {
      const [org = "", ...rest] = id.split("/");
      return runCreate(TEAMS, { org, id: rest.join("/") }, flags);
    });
  return group("teams", "Manage the teams of a gateway.", [create, ...common(TEAMS, "delete")]);
}

export function keysCommand(): Command {
  const create = changing("create", "Make a key, which is shown once.")
    .argument("<name>", "name for people")
    .option("--org <id>", "organisation that it belongs to (default: default)")
    .option("--team <id>", "team that it belongs to, such as acme/search")
    .option("--expires <time>", "how long it is valid, such as 90d")
    .action((name: string, { org, team, ...flags }: ChangeFlags) => runCreate(KEYS, { name, org, team }, flags));
  const rotate = addAdminFlags(new Command("rotate"))
    .description("Give a key another text, which is shown once.")
    .argument("<id>")
    .option("--grace <time>", "how long the old text stays valid, such as 30m or 7d; 0: not at all", "24h")
    .action(runRotate);
  return group("keys", "Manage the API keys of a gateway.", [create, ...common(KEYS, "revoke"), rotate]);
}

function group(name: string, description: string, commands: readonly Command[]): Command {
  const parent = new Command(name).description(description);
  for (const command of commands) parent.addCommand(command);
  return parent;
}

function changing(name: string, description: string): Command {
  return addSettingFlags(addAdminFlags(new Command(name))).description(description);
}

function common(kind: Kind, end: "delete" | "revoke"): readonly Command[] {
  const { one, many, path } = kind;
  const list = addAdminFlags(new Command("list")).description(`List the ${many}, the newest first.`);
  if (kind !== ORGS) list.option("--org <id>", "of this organisation only");
  if (kind === KEYS) list.option("--team <id>", "of this team only");
  list.option("--all", `also list ${end}d ones`).action((flags: ListFlags) => runList(kind, flags));
  const show = addAdminFlags(new Command("show"))
    .description(`Show ${one}.`)
    .argument("<id>")
    .action(async (id: string, flags: AdminFlags) => {
      print(flags, await new AdminClient(flags).ask("GET", pathOf(kind, id)), scopeText);
    });
  const update = changing("update", `Change ${one}; fields that are not named stay as they are.`)
    .argument("<id>")
    .option("--name <name>", "name for people");
  if (kind === KEYS) update.option("--expires <time>", "how long it is valid from now, such as 90d; none: for ever");
  update.action((id: string, flags: ChangeFlags) => runUpdate(kind, id, flags));
  const what = path === "/keys" ? "Revoke a key, at once." : `Delete ${one} and revoke its keys, at once.`;
  const ending = addAdminFlags(new Command(end))
    .description(what)
    .argument("<id>")
    .action(async (id: string, flags: AdminFlags) => {
      print(flags, await new AdminClient(flags).ask("DELETE", pathOf(kind, id)), scopeText);
    });
  return [list, show, update, ending];
}

function pathOf({ path }: Kind, id: string): string {
  return `${path}/${id.split("/").map(encodeURIComponent).join("/")}`;
}

async function runCreate(kind: Kind, fields: Json, flags: ChangeFlags): Promise<void> {
  const { expires } = flags;
  const expiresAt = expires === undefined ? undefined : endIn(expires);
  const body = { ...withoutNulls(settingsOf(flags)), ...fields, expires_at: expiresAt };
  print(flags, await new AdminClient(flags).ask("POST", kind.path, body), kind === KEYS ? newKeyText : scopeText);
}

async function runUpdate(kind: Kind, id: string, flags: ChangeFlags): Promise<void> {
  const { expires } = flags;
  const expiresAt = expires === undefined ? undefined : expires === "none" ? null : endIn(expires);
  const body = { ...settingsOf(flags), ...(expiresAt === undefined ? {} : { expires_at: expiresAt }) };
  print(flags, await new AdminClient(flags).ask("PATCH", pathOf(kind, id), body), scopeText);
}

async function runRotate(id: string, flags: ChangeFlags): Promise<void> {
  const body = { grace_seconds: secondsIn("--grace", flags.grace ?? "24h") };
  print(flags, await new AdminClient(flags).ask("POST", `${pathOf(KEYS, id)}/rotate`, body), newKeyText);
}

async function runList(kind: Kind, { org, team, all = false, ...flags }: ListFlags): Promise<void> {
  const query = { org, team, ...(all ? { ended: "true" } : {}) };
  const scopes = await new AdminClient(flags).list(kind.path, query);
  print(flags, { data: scopes }, () =>
    scopes.length === 0 ? `there are no ${kind.many} besides those of the gateway's file` : scopeTable(scopes),
  );
}

/** Seconds since 1970. */
function endIn(text: string): number {
  return Math.floor(Date.now() / 1000) + secondsIn("--expires", text);
}

function print({ json = false }: AdminFlags, value: Json, text: (value: Json) => string): void {
  process.stdout.write(`${json ? jsonText(value) : text(value)}\n`);
}
