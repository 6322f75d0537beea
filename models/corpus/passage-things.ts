/** What passages state of buildings, companies, objects, events, programs and places. */
import { animals } from "./fact-tables.js";
import { firstName, fullName, street, town } from "./names.js";
import { colouredThing, oneOf, type Relation, wholeNumber, year } from "./passage-relation.js";
import { amount, code, date, time } from "./values.js";
import { adjectives, colours, materials, months, objects, rooms } from "./words.js";

export const buildingRelations: readonly Relation[] = [
  {
    name: "built",
    makeValue: year,
    says: "[{e} was built in {v}.|Work on {e} was finished in {v}.|{e} dates from {v}.|{e} has stood here since {v}.]",
    asks: "[When was {e} built|In which year was {e} built|What year was {e} built|How long has {e} stood, since which year|From which year is {e}|When was {e} finished|Tell me the year of {e}|What year does {e} date from]?",
    asksBack: "[What was built in {v}|Which building dates from {v}|What has stood since {v}]?",
  },
  {
    name: "architect",
    makeValue: fullName,
    says: "[{e} was designed by {v}.|The plans for {e} were drawn by {v}.|{e} is the work of {v}.]",
    asks: "[Who designed {e}|Who drew the plans for {e}|Whose work is {e}|Who was the architect of {e}|Which architect designed {e}|By whom was {e} designed|Who planned {e}|Tell me who designed {e}]?",
    asksBack: "[What did {v} design|Which building is by {v}|What is the work of {v}]?",
  },
  {
    name: "opens",
    makeValue: time,
    says: "[{e} opens at {v}.|Visitors may enter {e} from {v}.|The doors of {e} open at {v}.]",
    asks: "[When does {e} open|At what time does {e} open|From what time is {e} open|When do the doors of {e} open|What time does {e} open|Tell me when {e} opens|When can I enter {e}|How early does {e} open]?",
    asksBack: "[What opens at {v}|Which place opens at {v}]?",
  },
  {
    name: "location",
    makeValue: street,
    says: "[{e} stands on {v}.|You find {e} on {v}.|The way to {e} leads along {v}.]",
    asks: "[Where is {e}|On which street is {e}|Where does {e} stand|Which street is {e} on|Where can I find {e}|On what street do I find {e}|Tell me where {e} is|What is the street of {e}]?",
    asksBack: "[What stands on {v}|Which building is on {v}|What can be found on {v}]?",
  },
  {
    name: "owner",
    makeValue: fullName,
    says: "[{e} belongs to {v}.|The owner of {e} is {v}.|{e} was bought by {v}.|{e} is in the hands of {v}.]",
    asks: "[Who owns {e}|Who is the owner of {e}|Whom does {e} belong to|Whose is {e}|To whom does {e} belong|Who has bought {e}|Tell me who owns {e}|What is the name of the owner of {e}]?",
    asksBack: "[What does {v} own|What belongs to {v}|Which place belongs to {v}]?",
  },
  {
    name: "material",
    makeValue: oneOf([
      "wood",
      "stone",
      "brick",
      "glass",
      "concrete",
      "marble",
      "granite",
      "slate",
      "steel",
      "clay",
      "limestone",
      "sandstone",
    ]),
    says: "[{e} is made of {v}.|The walls of {e} are of {v}.|Most of {e} is {v}.]",
    asks: "[What is {e} made of|Of what are the walls of {e}|Which material is {e} made of|What are the walls of {e} made of|From what is {e} made|Which material was used for {e}|Tell me the material of {e}|What material is {e}]?",
  },
  {
    name: "floors",
    makeValue: wholeNumber(2, 40),
    says: "[{e} has {v} rooms.|There are {v} rooms in {e}.|Guests count {v} rooms in {e}.]",
    asks: "[How many rooms does {e} have|How many rooms are in {e}|What is the number of rooms in {e}|How many rooms are there in {e}|Count the rooms of {e}: how many|Tell me how many rooms {e} has|How many rooms has {e}|What number of rooms does {e} have]?",
    asksBack: "[What has {v} rooms|Which place has {v} rooms]?",
  },
  {
    name: "fee",
    makeValue: (random) => `${amount(random, 60)} ${random.pick(["euros", "dollars", "pounds", "crowns"])}`,
    says: "[A ticket for {e} costs {v}.|Entry to {e} is {v}.|Visitors of {e} pay {v}.]",
    asks: "[How much is a ticket for {e}|What does entry to {e} cost|What is the price of a ticket for {e}|How much do visitors of {e} pay|What does a ticket for {e} cost|What is the entry fee of {e}|Tell me the price of {e}|How much does {e} cost to visit]?",
    asksBack: "[What costs {v} to visit|Which place costs {v}]?",
  },
];

export const firmRelations: readonly Relation[] = [
  {
    name: "founded",
    makeValue: year,
    says: "[{e} was founded in {v}.|{e} started in {v}.|Since {v}, {e} has been in business.]",
    asks: "[When was {e} founded|In which year was {e} founded|What year did {e} start|When did {e} start|Since when has {e} been in business|Since which year does {e} exist|Tell me when {e} was founded|In what year did {e} begin]?",
    asksBack: "[Which company was founded in {v}|What started in {v}|Which company has existed since {v}]?",
  },
  {
    name: "founder",
    makeValue: fullName,
    says: "[The founder of {e} is {v}.|{e} was set up by {v}.|{v} started {e} in a garage.]",
    asks: "[Who founded {e}|Who is the founder of {e}|Who set up {e}|Who started {e}|By whom was {e} founded|What is the name of the founder of {e}|Tell me who founded {e}|Which person started {e}]?",
    asksBack: "[What did {v} found|Which company was started by {v}|What company did {v} set up]?",
  },
  {
    name: "office",
    makeValue: town,
    says: "[{e} has its main office in {v}.|The head office of {e} is in {v}.|{e} is based in {v}.]",
    asks: "[Where is {e} based|Where is the main office of {e}|In which city is {e}|Where does {e} have its head office|Which town is {e} based in|What city is home to {e}|Tell me where {e} is based|In what place is the office of {e}]?",
    asksBack: "[Which company is based in {v}|What company has its office in {v}|Who is based in {v}]?",
  },
  {
    name: "staff",
    makeValue: wholeNumber(3, 4800),
    says: "[{e} employs {v} people.|{v} people work at {e}.|The staff of {e} has grown to {v}.]",
    asks: "[How many people work at {e}|How many people does {e} employ|What is the number of staff at {e}|How large is the staff of {e}|How many workers does {e} have|What size is the staff of {e}|Tell me how many people {e} employs|How many employees does {e} have]?",
    asksBack: "[Which company employs {v} people|Where do {v} people work]?",
  },
  {
    name: "goods",
    makeValue: (random) => `${random.pick(materials)} ${random.pick(objects)}s`,
    says: "[{e} sells {v}.|{e} is known for its {v}.|{e} makes {v}.]",
    asks: "[What does {e} sell|What does {e} make|What is {e} known for|Which goods come from {e}|What can I buy from {e}|What is the product of {e}|Tell me what {e} sells|What goods does {e} offer]?",
    asksBack: "[Who sells {v}|Which company makes {v}|Who is known for {v}]?",
  },
  {
    name: "boss",
    makeValue: fullName,
    says: "[{e} is led by {v}.|The director of {e} is {v}.|{v} runs {e}.]",
    asks: "[Who leads {e}|Who is the director of {e}|Who runs {e}|Who is the head of {e}|What is the name of the director of {e}|By whom is {e} led|Tell me who runs {e}|Who is in charge of {e}]?",
    asksBack: "[What does {v} lead|Which company does {v} run|Of which company is {v} the director]?",
  },
];

export const objectRelations: readonly Relation[] = [
  {
    name: "place",
    makeValue: (random) => `${random.pick(["in", "near", "behind", "beside"])} the ${random.pick(rooms)}`,
    says: "[{e} is {v}.|{e} was left {v}.|Somebody put {e} {v}.|{e} lies {v}.]",
    asks: "[Where is {e}|Where can I find {e}|Where did somebody put {e}|In which spot is {e}|Where was {e} left|Tell me where {e} is|Where should I look for {e}|Where does {e} lie]?",
    asksBack: "[What is {v}|What was left {v}|Which thing is {v}]?",
  },
  {
    name: "colour",
    makeValue: oneOf(colours),
    says: "[{e} is painted {v}.|{e} is {v} all over.|The colour of {e} is {v}.]",
    asks: "[What colour is {e}|Which colour is {e}|What is the colour of {e}|In what colour is {e}|Which colour does {e} have|Tell me the colour of {e}|How is {e} painted|What colour has {e}]?",
  },
  {
    name: "owner",
    makeValue: firstName,
    says: "[{e} belongs to {v}.|{e} was a gift for {v}.|The owner of {e} is {v}.|{e} is {v}'s.]",
    asks: "[Who owns {e}|Whose is {e}|Who is the owner of {e}|Whom does {e} belong to|To whom does {e} belong|Tell me who owns {e}|Which person owns {e}|Who has {e}]?",
    asksBack: "[What belongs to {v}|What does {v} own|Which thing is {v}'s]?",
  },
  {
    name: "price",
    makeValue: (random) => `${amount(random, 400)} ${random.pick(["euros", "dollars", "pounds", "crowns"])}`,
    says: "[{e} costs {v}.|The price of {e} is {v}.|{e} was sold for {v}.]",
    asks: "[How much is {e}|What does {e} cost|What is the price of {e}|How much does {e} cost|For how much was {e} sold|Tell me the price of {e}|What price is {e}|What would I pay for {e}]?",
    asksBack: "[What costs {v}|Which thing costs {v}|What is sold for {v}]?",
  },
  {
    name: "code",
    makeValue: code,
    says: "[{e} has the number {v}.|The code of {e} is {v}.|{e} is listed as {v}.|The label on {e} says {v}.]",
    asks: "[What is the code of {e}|Which code has {e}|What is the number of {e}|What does the label on {e} say|Under which code is {e} listed|Tell me the code of {e}|Which number has {e}|What code belongs to {e}]?",
    asksBack: "[What is listed as {v}|Which thing has the code {v}|What has the number {v}]?",
  },
  {
    name: "weight",
    makeValue: (random) => `${amount(random, 90)} ${random.pick(["kg", "grams", "pounds"])}`,
    says: "[{e} weighs {v}.|The weight of {e} is {v}.|With {v}, {e} is heavier than it looks.]",
    asks: "[How heavy is {e}|What does {e} weigh|How much does {e} weigh|What is the weight of {e}|What weight has {e}|Tell me the weight of {e}|How many kg, grams or pounds is {e}|How heavy would {e} be]?",
    asksBack: "[What weighs {v}|Which thing weighs {v}|What has a weight of {v}]?",
  },
];

export const eventRelations: readonly Relation[] = [
  {
    name: "date",
    makeValue: date,
    says: "[{e} takes place on {v}.|{e} is planned for {v}.|The date of {e} is {v}.]",
    asks: "[When is {e}|When does {e} take place|What is the date of {e}|On which date is {e}|For when is {e} planned|On what day does {e} take place|Tell me when {e} is|What date is {e}]?",
    asksBack: "[What takes place on {v}|What is planned for {v}|Which event is on {v}]?",
  },
  {
    name: "starts",
    makeValue: time,
    says: "[{e} starts at {v}.|{e} begins at {v}.|Guests of {e} should be there by {v}.]",
    asks: "[At what time does {e} start|What time does {e} begin|When does {e} start, at what time|At what time is {e}|From what time is {e}|What is the starting time of {e}|Tell me the starting time of {e}|What time should guests be at {e}]?",
    asksBack: "[What starts at {v}|Which event begins at {v}]?",
  },
  {
    name: "venue",
    makeValue: (random) => `the ${random.pick(rooms)} in ${town(random)}`,
    says: "[{e} is held at {v}.|The place of {e} is {v}.|Everybody meets for {e} at {v}.]",
    asks: "[Where is {e}|Where is {e} held|Where does everybody meet for {e}|What is the place of {e}|At which place is {e}|What is the venue of {e}|Tell me where {e} is held|In which place is {e}]?",
    asksBack: "[What is held at {v}|Which event is at {v}]?",
  },
  {
    name: "host",
    makeValue: fullName,
    says: "[{e} is run by {v}.|{e} is organised by {v}.|The host of {e} is {v}.]",
    asks: "[Who organises {e}|Who is the host of {e}|Who runs {e}|By whom is {e} organised|Who hosts {e}|Tell me who organises {e}|Which person runs {e}|What is the name of the host of {e}]?",
    asksBack: "[What does {v} organise|Which event is run by {v}|What does {v} host]?",
  },
  {
    name: "guests",
    makeValue: wholeNumber(8, 900),
    says: "[{v} guests are expected at {e}.|{e} has room for {v} guests.|The list for {e} has {v} guests.]",
    asks: "[How many guests are at {e}|How many guests does {e} have|What is the number of guests at {e}|How many people come to {e}|For how many guests is {e}|How many guests can {e} have|Tell me how many guests {e} has|How many people are at {e}]?",
  },
  {
    name: "prize",
    makeValue: colouredThing,
    says: "[The prize at {e} is {v}.|The winner of {e} gets {v}.|Whoever wins {e} takes home {v}.]",
    asks: "[What is the prize at {e}|What does the winner of {e} get|What can one win at {e}|Which prize does {e} have|What does the winner of {e} take home|Tell me the prize of {e}|What is there to win at {e}|Which prize is given at {e}]?",
    asksBack: "[Where can one win {v}|Which event has {v} as the prize]?",
  },
];

export const softwareRelations: readonly Relation[] = [
  {
    name: "author",
    makeValue: fullName,
    says: "[{e} was written by {v}.|The author of {e} is {v}.|{e} is maintained by {v}.]",
    asks: "[Who wrote {e}|Who is the author of {e}|By whom was {e} written|Who maintains {e}|Which person wrote {e}|What is the name of the author of {e}|Tell me who wrote {e}|Who is behind {e}]?",
    asksBack: "[What did {v} write|What is maintained by {v}|Of what is {v} the author]?",
  },
  {
    name: "version",
    makeValue: (random) => `${random.int(0, 9)}.${random.int(0, 20)}.${random.int(0, 9)}`,
    says: "[The latest version of {e} is {v}.|{e} is at version {v}.|Version {v} of {e} came out this week.]",
    asks: "[What is the latest version of {e}|Which version is {e} at|What version of {e} is the latest|Which version of {e} came out|What is the version of {e}|Tell me the version of {e}|At which version is {e}|What version does {e} have]?",
    asksBack: "[What is at version {v}|Which program has version {v}]?",
  },
  {
    name: "port",
    makeValue: wholeNumber(1024, 65000),
    says: "[{e} listens on port {v}.|{e} uses port {v}.|The port of {e} is {v}.]",
    asks: "[Which port does {e} use|On which port does {e} listen|What is the port of {e}|What port does {e} listen on|Which port belongs to {e}|Tell me the port of {e}|Under which port is {e} reached|What port is {e} on]?",
    asksBack: "[What listens on port {v}|Which program uses port {v}]?",
  },
  {
    name: "memory",
    makeValue: (random) => `${random.int(2, 960)} ${random.pick(["MB", "GB"])}`,
    says: "[{e} needs {v} of memory.|{e} takes {v} of memory.|To run {e}, {v} of memory is enough.]",
    asks: "[How much memory does {e} need|What memory does {e} need|How much memory is enough for {e}|How much memory does {e} take|What amount of memory does {e} need|Tell me how much memory {e} needs|How much memory should a machine for {e} have|What does {e} need in memory]?",
    asksBack: "[What needs {v} of memory|Which program takes {v} of memory]?",
  },
  {
    name: "language",
    makeValue: oneOf([
      "Rust",
      "Go",
      "Python",
      "TypeScript",
      "C++",
      "Java",
      "Ruby",
      "Kotlin",
      "Swift",
      "Haskell",
      "Zig",
    ]),
    says: "[{e} is written in {v}.|The code of {e} is in {v}.|{e} was moved to {v} last year.]",
    asks: "[In which language is {e} written|What language is {e} written in|Which language does {e} use|What is {e} written in|What is the language of {e}|Tell me the language of {e}|In what is {e} written|Which programming language is {e} in]?",
  },
  {
    name: "licence",
    makeValue: oneOf(["MIT", "Apache-2.0", "BSD", "GPL-3.0", "MPL-2.0", "ISC"]),
    says: "[{e} is under the {v} licence.|The licence of {e} is {v}.|{e} is released under {v}.]",
    asks: "[What is the licence of {e}|Under which licence is {e}|Which licence does {e} have|What licence is {e} under|Under what licence is {e} released|Tell me the licence of {e}|Which licence belongs to {e}|What licence does {e} use]?",
  },
];

export const natureRelations: readonly Relation[] = [
  {
    name: "height",
    makeValue: (random) => `${random.int(12, 6900)} ${random.pick(["metres", "feet"])}`,
    says: "[{e} measures {v}.|{e} is {v} from end to end.|Maps give {v} for {e}.]",
    asks: "[What does {e} measure|How far does {e} reach|What size is {e}|What do maps give for {e}|How large is {e}|Tell me the size of {e}|How many metres or feet is {e}|What is the measure of {e}]?",
    asksBack: "[What measures {v}|For what do maps give {v}]?",
  },
  {
    name: "finder",
    makeValue: fullName,
    says: "[{e} was first mapped by {v}.|{v} was the first to cross {e}.|{e} was found by {v}.]",
    asks: "[Who first mapped {e}|Who found {e}|Who was the first to cross {e}|By whom was {e} found|Which person first mapped or found {e}|Who was first at {e}|Tell me who found {e}|What is the name of the finder of {e}]?",
    asksBack: "[What did {v} find|What was first mapped by {v}|What did {v} map or cross]?",
  },
  {
    name: "near",
    makeValue: town,
    says: "[{e} is close to {v}.|The nearest town to {e} is {v}.|The path to {e} starts in {v}.]",
    asks: "[Which town is close to {e}|What is the nearest town to {e}|Where does the path to {e} start|Near which town is {e}|What town is near {e}|Tell me the town near {e}|Which place is close to {e}|From where does one reach {e}]?",
    asksBack: "[What is close to {v}|What can be reached from {v}|What is near {v}]?",
  },
  {
    name: "wildlife",
    makeValue: (random) => `${random.pick(adjectives)} ${random.pick(animals).name}`,
    says: "[{e} is known for the {v}.|Near {e} one may meet the {v}.|{e} is home to the {v}.]",
    asks: "[Which animal lives near {e}|What animal may one meet near {e}|For which animal is {e} known|Which animal is at home at {e}|What animal is {e} known for|Tell me the animal of {e}|Which animal belongs to {e}|What animal lives at {e}]?",
  },
  {
    name: "season",
    makeValue: oneOf(months),
    says: "[The best time to see {e} is {v}.|Most people visit {e} in {v}.|{e} is most beautiful in {v}.]",
    asks: "[When should one visit {e}|In which month is {e} best|What is the best time for {e}|When do most people visit {e}|In which month is {e} most beautiful|Tell me the best month for {e}|Which month is best for {e}|When is the best time to see {e}]?",
  },
];
