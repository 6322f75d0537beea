/** Words that turn a question into another one, in groups: each side of `/` opposes every other side of its line. */

const OPPOSED = `
enable enabled enabling activate / disable disabled disabling deactivate
on / off
before / after
increase increases increased increasing raise rise rising grow growing / decrease decreases decreased decreasing reduce reduced lower lowering fall drop shrink
min minimum minimal least fewest smallest lowest / max maximum maximal most largest biggest highest greatest
more / less fewer
buy buying purchase / sell selling
bought / sold
best / worst
good better / bad worse
first / last
start begin beginning open launch / stop end ending close finish quit
started opened / stopped ended closed
oldest / newest youngest
old / new young
fast faster fastest quick / slow slower slowest
high higher / low
up upload uploading / down download downloading
hot hotter hottest / cold colder coldest
long longer longest / short shorter shortest
big bigger large larger / small smaller little
tall taller tallest / short shorter shortest
heavy heavier heaviest / light lighter lightest
strong stronger strongest / weak weaker weakest
cheap cheaper cheapest / expensive dearer
easy easier easiest simple / hard harder hardest difficult
rich richer richest / poor poorer poorest
safe safer safest / dangerous unsafe risky
early earlier earliest / late later latest
near nearer nearest closest / far farther farthest
above over / below under beneath
inside in / outside out
include includes including included with / exclude excludes excluding excluded without
add adding insert append / remove removing delete deleting subtract
create make build / destroy delete remove
accept allow permit / reject deny forbid refuse block
push / pull
read / write
send sending / receive receiving
import importing / export exporting
encrypt encode compress zip lock / decrypt decode decompress unzip unlock
install / uninstall remove
connect / disconnect
attach / detach
login / logout
show display visible / hide hidden invisible
left / right
north northern / south southern
east eastern / west western
true / false
yes / no
win won winner winners victory / lose lost loser losers defeat
love like / hate dislike
male man men boy boys husband father son brother uncle king he / female woman women girl girls wife mother daughter sister aunt queen she
positive pro pros advantage advantages benefit benefits strength strengths / negative con cons disadvantage disadvantages drawback drawbacks weakness weaknesses
cause causes reason / effect effects consequence
question / answer
input / output
public / private
internal / external
always / never sometimes
all every each / some none
only / also
alive living live born / dead die died death
arrive arrival arrivals arriving / depart departure departures departing leave
profit gain / loss
debit / credit
borrow / lend
employer / employee
teacher / student
parent parents / child children
legal / illegal
possible / impossible
ascending ascend / descending descend
horizontal horizontally / vertical vertically
even / odd
north / east west
south / east west
day / night
summer / winter
morning / evening afternoon night
asc / desc
row rows / column columns
client / server
local / remote
local / global
same / different opposite
similar similarity similarities / different difference differences
agree / disagree
warm / cool
wet / dry
full / empty
loud / quiet
thick / thin
wide / narrow
deep / shallow
host / guest
liquid / solid gas
acid acidic / base basic alkaline
left-handed / right-handed
domestic / international foreign
permanent / temporary
hardware / software
synchronous sync / asynchronous async
static / dynamic
manual manually / automatic automatically
online / offline
front / back
top / bottom
weekday weekdays / weekend weekends
today / tomorrow yesterday
yesterday / tomorrow
daily / weekly monthly yearly annually annual hourly
weekly / monthly yearly annually annual hourly
monthly / yearly annually annual hourly
my / your his her their our
his / her their our your
i / you he she they we
he / she they
past / future present
should must / may might could
can / must should
who / whom whose
why / how when where who what
how / when where who
when / where who
where / who
`;

/** Word → its (line, side) pairs. */
export const OPPOSITES: ReadonlyMap<string, readonly (readonly [number, number])[]> = (() => {
  const places = new Map<string, (readonly [number, number])[]>();
  for (const [line, text] of OPPOSED.trim().split("\n").entries()) {
    for (const [side, words] of text.split(" / ").entries()) {
      for (const word of words.split(" ")) {
        const known = places.get(word);
        if (known === undefined) places.set(word, [[line, side]]);
        else known.push([line, side]);
      }
    }
  }
  return places;
})();
