/** English words by their role in a question. */

const set = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

/** Words whose meaning other words carry too. */
export const EMPTY_WORDS = set("a an the of exactly actually basically really please");

/** Words of emphasis, which may stand anywhere. */
export const FILLERS = set("exactly actually basically really kindly");

/** Forms of `be` in the present. */
export const PRESENT_AUXILIARIES = set("is are am be being");

/**
 * Auxiliaries of time, ability, permission or obligation: they move in embedded questions, so their order does not
 * count.
 */
export const CUE_WORDS = set("was were did had has have been will would could should can may might must shall ought");

/** Words that relate the following words to the rest. */
export const RELATIONS = set(
  "from to before after than by over under above below into onto between against with without for since until till via toward towards behind through during as like in on at about beyond within outside inside off out up down across among per versus vs",
);

/** Relations whose object cannot change places with another's without a change of meaning. */
export const DIRECTED = set(
  "from to before after than by over under above below into onto against with without for since until till via toward towards behind through as in on at beyond within outside inside off out up down versus vs",
);

/** Words that may follow `be` as its participle without a participle's ending. */
export const PARTICIPLES = set(
  "made done known seen shown given taken written spoken broken chosen driven eaten fallen flown forgotten frozen grown hidden ridden risen shaken stolen sworn thrown woken worn drawn born built bought brought caught cut dealt fed felt fought found held hurt kept laid led left lent lit lost met paid put read said sold sent set shot shut spent split spread struck taught told thought understood won hit let bred bound sung sunk swum run beaten bitten blown",
);

/** Words that `s` or `ing` turns into another word, not another form. */
export const NO_INFLECTION = set(
  `glass glasses new news arm arms custom customs good goods mean means meaning time times work works saving savings wood woods damage damages force forces
  manner manners content contents look looks minute minutes premise premises draft drafts people peoples water waters physic physics mathematic mathematics
  politic politics economic economics ethic ethics statistic statistics letter letters spirit spirits spectacle spectacles scale scales ground grounds
  build building meet meeting lead leading feel feeling paint painting read reading board boarding park parking draw drawing cloth clothing clothes train training
  bank banking fund funding hear hearing engineer engineering market marketing program programming host hosting floor flooring ceil ceiling even evening
  morn morning dur during noth nothing someth something anyth anything everyth everything str string bring spring king thing things ring wing sing sling
  accord according regard regarding includ including us bus gas yes his its this thus plus always perhaps has was is as does whereas series species lens
  pass passing class classing fall falling right rights public publics person persons head heads heading stand standing set setting settings land landing
  wed wedding cross crossing save saving sav mail mailing rat rating rate star staring stare start string strings bass base bases basis press pressing
  advice advise device devise breath breathe bath bathe loose lose lost quit quite plan plane planes plans cut cute hop hope hopes hops pin pine pines pins
  tap tape tapes taps car care cares cars bar bare bars hat hate hates hats not note notes nots on one ones rob robe robes robs us use uses using
  sit site sites sits bit bite bites bits win wine wines wins kit kite kites kits tub tube tubes tubs cub cube cubes cubs cop cope copes cops`,
);

/** Words that ask for something changing: such a question has no lasting answer. */
export const VOLATILE = set(
  "today tonight tomorrow yesterday now currently current latest newest recent recently nowadays upcoming weather forecast heute gestern jetzt aktuell aktuelle aujourd'hui demain maintenant hoy ayer mañana ahora oggi domani ieri hoje amanhã ontem vandaag gisteren",
);

/** Words that ask for something else at each turn. */
export const VARIED = set("random randomly another again surprise joke jokes poem story riddle");

/** Words with another meaning in capitals than in small letters. */
export const CASE_SENSITIVE = set(
  "us it who aids sat act may march turkey china polish go rust swift apple amazon python java ruby windows word excel teams slack will mark bill rob jack rose grace hope art gap nice reading mobile bath cork lima lent august job nan id or and not in",
);

/** Words that a paraphrase may add without a change of meaning; only the mode `balanced` ignores them. */
export const LIGHT_WORDS = set(
  "way ways thing things kind kinds type types sort sorts main basic common typical general generally usually normally own some any certain various different possible available",
);
