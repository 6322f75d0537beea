/** Completion scripts, generated from the tree of commands, so that they are always current. */
import type { Command } from "commander";

export const SHELLS = ["bash", "zsh", "fish"] as const;

interface Word {
  readonly word: string;
  readonly about: string;
}

/** A command and its completions. Path: "" for the program itself, "bench run" for a subcommand. */
interface Place {
  readonly path: string;
  readonly commands: readonly Word[];
  readonly flags: readonly Word[];
}

/** The command whose flags also work without a command. */
const DEFAULT_COMMAND = "serve";

function flagsOf(command: Command): readonly Word[] {
  const own = command.options.flatMap(({ long, description }) => (long ? [{ word: long, about: description }] : []));
  return [...own, { word: "--help", about: "display help" }];
}

function placesOf(program: Command): readonly Place[] {
  const placeOf = (path: string, command: Command): readonly Place[] => {
    const commands = command.commands.map((each) => ({ word: each.name(), about: each.description() }));
    const below = command.commands.flatMap((each) =>
      placeOf(path === "" ? each.name() : `${path} ${each.name()}`, each),
    );
    const assumed = path === "" ? command.commands.filter((each) => each.name() === DEFAULT_COMMAND) : [];
    const flags = new Map([command, ...assumed].flatMap(flagsOf).map((flag) => [flag.word, flag]));
    return [{ path, commands, flags: [...flags.values()] }, ...below];
  };
  return placeOf("", program);
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const wordsOf = (words: readonly Word[]): string => words.map(({ word }) => word).join(" ");

/** Shell code, for bash and zsh, that determines the command from the words so far. */
function walk(places: readonly Place[]): string {
  const steps = places
    .filter(({ path }) => path !== "")
    .map(({ path }) => {
      const at = path.lastIndexOf(" ");
      return `      ${quoted(`${path.slice(0, Math.max(at, 0))}|${path.slice(at + 1)}`)}) place=${quoted(path)} ;;`;
    });
  return [`    case "$place|$word" in`, ...steps, "    esac"].join("\n");
}

function bashScript(places: readonly Place[]): string {
  const cases = places.map(({ path, commands, flags }) => {
    return `    ${quoted(path)}) commands=${quoted(wordsOf(commands))} flags=${quoted(wordsOf(flags))} ;;`;
  });
  return `_millrace() {
  local place='' word commands='' flags='' current="\${COMP_WORDS[COMP_CWORD]}"
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
${walk(places)}
  done
  case "$place" in
${cases.join("\n")}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$commands" -- "$current")) ;;
  esac
}
complete -o default -F _millrace millrace
`;
}

function zshScript(places: readonly Place[]): string {
  const described = ({ word, about }: Word): string => quoted(`${word.replaceAll(":", "\\:")}:${about}`);
  const cases = places.map(({ path, commands, flags }) => {
    const list = (words: readonly Word[]): string => words.map(described).join(" ");
    return `    ${quoted(path)}) commands=(${list(commands)}); flags=(${list(flags)}) ;;`;
  });
  return `#compdef millrace
_millrace() {
  local place='' word
  local -a commands flags
  for word in "\${(@)words[2,CURRENT-1]}"; do
${walk(places)}
  done
  case "$place" in
${cases.join("\n")}
  esac
  if [[ "\${words[CURRENT]}" == -* ]]; then
    _describe flag flags
  elif (( \${#commands} )); then
    _describe command commands
  else
    _files
  fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _millrace millrace
`;
}

function fishScript(places: readonly Place[]): string {
  const inFish = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const isAt = ({ path, commands }: Place): string => {
    if (path === "") return "__fish_use_subcommand";
    const [first = "", second] = path.split(" ");
    if (second !== undefined) return `__fish_seen_subcommand_from ${first}; and __fish_seen_subcommand_from ${second}`;
    const isInside = commands.length === 0 ? "" : `; and not __fish_seen_subcommand_from ${wordsOf(commands)}`;
    return `__fish_seen_subcommand_from ${first}${isInside}`;
  };
  const lines = places.flatMap((place) => {
    const when = `-n ${inFish(isAt(place))}`;
    const named = place.commands.map(
      ({ word, about }) => `complete -c millrace ${when} -f -a ${word} -d ${inFish(about)}`,
    );
    const flags = place.flags.map(
      ({ word, about }) => `complete -c millrace ${when} -l ${word.slice(2)} -d ${inFish(about)}`,
    );
    return [...named, ...flags];
  });
  return `${lines.join("\n")}\n`;
}

export function completionScript(program: Command, form: (typeof SHELLS)[number] | "json"): string {
  const places = placesOf(program);
  if (form === "json") return `${JSON.stringify({ commands: places })}\n`;
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[form](places);
}
