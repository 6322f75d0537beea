/**
 * The frames of English questions. A line is `pattern => words`: the pattern's words at the beginning of a prompt
 * become the words on the right. `a|b` is either word, `a?` may be missing. A word in capitals is the kind of the
 * question; a line without one only removes politeness, and the search starts again.
 */
const FRAMES = `
hi|hello|hey|greetings there|all|everyone|everybody|folks|guys? =>
good morning|afternoon|evening =>
dear assistant|ai|bot|chatbot =>
so|ok|okay|well|um|hmm|now|and =>
please|pls|plz|kindly =>
thanks|thank you? =>
excuse me =>
i have|had|got a quick|short|simple? question =>
just? a? quick|simple question =>
quick|simple question =>
just curious =>
i am|was just? curious|wondering =>
i am|was looking to know =>
i would|d really|just? like|love to know =>
i want|need|wanted to know =>
i do not know =>
any idea|ideas =>
do|would you know =>
do|would you happen to know =>
does anyone|anybody|someone know =>
can|could|would|will you please|kindly|just|maybe|possibly? tell|inform|remind me =>
can|could anyone|anybody|someone please? tell me =>
let me know =>
would you mind telling me =>
would|do you mind? explaining => explain
is it true that => YESNO
is it the case that => YESNO
can|could|would|will you please|kindly|just? explain|describe|give|show|list|write|name|define|translate|summarize|summarise|recommend|suggest|provide|compare|make|create|generate|find|calculate|convert|solve|fix|check|teach|share|help|compute|rewrite|correct|answer|outline|draft|clarify|elaborate|walk|discuss|state|identify|count|sort|design|plan|prove|analyze|analyse|evaluate|review|paraphrase|proofread|simplify|format|debug|code|implement|compose => $last
i would|d like|love you to =>
i want|need you to =>
would you =>
tell|show|teach me the best|proper|right|correct? way|ways|steps|method to => HOWTO
tell|show|teach me how to => HOWTO
tell|show|teach me how do|can|could|would|should? i|you|we|one => HOWTO
explain|describe to? me? how to => HOWTO
explain|describe to? me? how can|could|do? i|you|we|one can|could|would|should? => HOWTO
explain|describe to? me? how => HOW
explain|describe to? me? why => WHY
explain|describe to? me? what => WHAT
define => DEFINE
give|show|provide|make|write me? a|the|one? list of => list
give|provide|write me? a|one? summary of => summarize
calculate|compute|determine|evaluate the? => WHAT
explain to? me? => EXPLAIN
describe to? me? => DESCRIBE
tell me how many => HOWMANY
tell me how much => HOWMUCH
tell me if|whether => YESNO
tell me what|which|who|whom|whose|when|where|why|how => $last
tell|give me the => WHAT
tell me about => ABOUT
give|show|tell me => GIVE
state|name|identify the => WHAT
if|whether => YESNO
how many => HOWMANY
how much time => HOWlong
how much => HOWMUCH
how far away => HOWfar
what is|was|are|were the? total? number of => HOWMANY
how do|can|could|would|should|may|might i|you|we|one|someone|somebody|people go about => HOWTO
how do|can|could|would|should|may|might i|you|we|one|someone|somebody => HOWTO
how can|could|does one|someone|somebody => HOWTO
how does one go? about? => HOWTO
how is it possible to => HOWTO
how to => HOWTO
how i|you|we|one can|could|would|should|do? => HOWTO
how come => WHY
how long|often|far|old|big|large|tall|high|deep|fast|heavy|wide|late|early|soon|hot|cold|likely|hard|difficult|safe|strong|thick|close|good|well|bad|accurate => HOW$last
what is|are the? best|proper|right|correct|recommended? way|ways|method|methods to => HOWTO
what is|are the? best|proper|right|correct|recommended? way|ways|method|methods of|for => HOWTO
what is|are the steps|procedure|process to|for|of|in => HOWTO
what steps do|should i|you|we|one need|have? to? take to => HOWTO
best|proper|right|correct way|ways|method to => HOWTO
the best|proper|right|correct way|ways|method to => HOWTO
steps to => HOWTO
for what reason|reasons => WHY
what is|was|are|were the? main? reason|reasons that|why => WHY
why is|was it that => WHY
why => WHY
what is|was the name of the? person|man|woman who|that => WHO
what person => WHO
which person => WHO
who is|was it|that that|who => WHO
who => WHO
whom => WHO
whose => WHOSE
at|in what time => WHATTIME
at|on|in what|which => WHAT
what time => WHATTIME
what|which => WHAT
when => WHEN
where => WHERE
how about => WHATABOUT
what about => WHATABOUT
how => HOW
is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|may|might|must|shall => YESNO $cues
`;

/** Removed from the end of a prompt. */
const ENDINGS = `
please|pls|plz
thanks|thx
thank you
thank you so|very much
thanks a lot
in advance
if you do not mind
if possible
if you can|could|would
`;

/** Pieces of contractions, in the order in which they are tried. */
export const CONTRACTIONS: readonly (readonly [RegExp, string])[] = [
  [/^(?:cannot|can't|cant)$/, "can not"],
  [/^won't$/, "will not"],
  [/^shan't$/, "shall not"],
  [/^ain't$/, "is not"],
  [/^(dont|doesnt|didnt|isnt|arent|wasnt|werent|hasnt|havent|couldnt|wouldnt|shouldnt)$/, "$1"],
  [/^(.+)n't$/, "$1 not"],
  [/^let's$/, "let us"],
  [/^(whats|wheres|whos|hows)$/, "$1"],
  [/^(what|where|who|when|why|how|that|it|he|she|there|here|this)'s$/, "$1 is"],
  [/^(.+)'m$/, "$1 am"],
  [/^(.+)'re$/, "$1 are"],
  [/^(.+)'ve$/, "$1 have"],
  [/^(.+)'ll$/, "$1 will"],
  [/^(i|you|he|she|we|they|it|who)'d$/, "$1 would"],
  [/^(.+)'s$/, "$1 's"],
];

/** Contractions without their apostrophe. */
export const BARE_CONTRACTIONS: ReadonlyMap<string, string> = new Map([
  ...["do", "does", "did", "is", "are", "was", "were", "has", "have", "could", "would", "should"].map(
    (word): [string, string] => [`${word}nt`, `${word} not`],
  ),
  ["whats", "what is"],
  ["wheres", "where is"],
  ["whos", "who is"],
  ["hows", "how is"],
  ["im", "i am"],
]);

export interface Step {
  readonly words: ReadonlySet<string>;
  readonly isOptional: boolean;
}

export interface Frame {
  readonly steps: readonly Step[];
  /** The words that replace the frame. `$last`: the last matched word. `$cues`: the auxiliaries among them are kept. */
  readonly becomes: readonly string[];
}

function stepsOf(pattern: string): Step[] {
  return pattern
    .trim()
    .split(/\s+/)
    .map((step) => ({ words: new Set(step.replace(/\?$/, "").split("|")), isOptional: step.endsWith("?") }));
}

const lines = (text: string): string[] => text.trim().split("\n");

export const ENGLISH_FRAMES: readonly Frame[] = lines(FRAMES).map((line) => {
  const [pattern = "", becomes = ""] = line.split("=>");
  return { steps: stepsOf(pattern), becomes: becomes.trim().split(/\s+/).filter(Boolean) };
});

export const ENGLISH_ENDINGS: readonly (readonly Step[])[] = lines(ENDINGS).map(stepsOf);
