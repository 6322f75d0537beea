/** What passages state of people. */
import { animals, foods } from "./fact-tables.js";
import { address, firm, fullName, town } from "./names.js";
import { colouredThing, oneOf, type Relation, wholeNumber } from "./passage-relation.js";
import { withArticle } from "./phrase.js";
import type { Random } from "./random.js";
import { digits } from "./values.js";
import { days, hobbies, jobs, months } from "./words.js";

const job = (random: Random): string => withArticle(random.pick(jobs));
const food = (random: Random): string => random.pick(foods)[1];
const animal = (random: Random): string => withArticle(random.pick(animals).name);

export const personRelations: readonly Relation[] = [
  {
    name: "home",
    makeValue: town,
    says: "[{e} lives in {v}.|{e} has lived in {v} for years.|{e} has a small flat in {v}.|The home of {e} is in {v}.]",
    asks: "[Where does {e} live|In which town does {e} live|Which city does {e} live in|Where is the home of {e}|What town is {e}'s home in|Tell me where {e} lives|Which place does {e} call home|What is the home town of {e}]?",
    asksBack:
      "[Who lives in {v}|Whose home is in {v}|Which person lives in {v}|Who has a home in {v}|Name the person who lives in {v}]?",
  },
  {
    name: "birthplace",
    makeValue: town,
    says: "[{e} was born in {v}.|{e} grew up in {v}.|{e} comes from {v}.|{e} spent a happy childhood in {v}.]",
    asks: "[Where did {e} grow up|Where does {e} come from|Where is {e} from|In which place did {e} spend childhood|What is the birthplace of {e}|Which town does {e} come from|Tell me where {e} grew up|Where did {e} spend the early years]?",
    asksBack: "[Who comes from {v}|Who grew up in {v}|Who is from {v}|Which person comes from {v}]?",
  },
  {
    name: "job",
    makeValue: job,
    says: "[{e} works as {v}.|{e} is {v}.|{e} earns a living as {v}.|{e} has been {v} since last year.]",
    asks: "[What is {e}'s job|What does {e} do|What is the job of {e}|What work does {e} do|How does {e} earn a living|What does {e} do for a living|What is {e}'s profession|Tell me the job of {e}|As what does {e} work]?",
    asksBack: "[Who is {v}|Who works as {v}|Which person is {v}|Name the person who works as {v}]?",
  },
  {
    name: "hobby",
    makeValue: oneOf(hobbies),
    says: "[{e} likes {v}.|{e} loves {v}.|{e} spends most evenings {v}.|On free days {e} enjoys {v}.]",
    asks: "[What does {e} like|What does {e} enjoy|What is {e}'s hobby|How does {e} spend free time|What does {e} like to do|What is the hobby of {e}|Which hobby does {e} have|What does {e} do for fun]?",
    asksBack: "[Who likes {v}|Who enjoys {v}|Whose hobby is {v}|Who spends free time {v}]?",
  },
  {
    name: "age",
    makeValue: wholeNumber(6, 94),
    says: "[{e} is {v} years old.|{e} turned {v} this spring.|{e} is {v}.|At the age of {v}, {e} is full of plans.]",
    asks: "[How old is {e}|What is {e}'s age|What is the age of {e}|What age is {e}|Tell me how old {e} is|How many years old is {e}|Which age is given for {e}|Say how old {e} is]?",
    asksBack: "[Who is {v} years old|Who is {v}|Whose age is {v}|Which person is {v} years old]?",
  },
  {
    name: "pet",
    makeValue: animal,
    says: "[{e} keeps {v} as a pet.|{e} has {v} at home.|At home, {e} looks after {v}.|{e} owns {v}.]",
    asks: "[What pet does {e} have|Which animal does {e} keep|What animal lives with {e}|What is {e}'s pet|Which pet does {e} own|What animal does {e} look after|Tell me which pet {e} keeps|What kind of animal does {e} have]?",
    asksBack: "[Who keeps {v}|Who has {v}|Who looks after {v}|Which person keeps {v}]?",
  },
  {
    name: "food",
    makeValue: food,
    says: "[{e} buys {v} every morning.|{e} grows {v} in the garden.|{e} never eats anything but {v}.|{e} sells {v} at the weekly market.]",
    asks: "[Which food is named with {e}|What food does {e} care for|What does {e} buy, grow, eat or sell|Which food belongs with {e}|Tell me the food that goes with {e}|What kind of food does the text name for {e}|Which food does the text name for {e}|What food is it with {e}]?",
  },
  {
    name: "belonging",
    makeValue: colouredThing,
    says: "[{e} owns {v}.|{e} bought {v} last week.|{e} always carries {v}.|{e} found {v} in the attic.]",
    asks: "[What thing does {e} have|Which object belongs to {e}|What does {e} have with a colour|Which coloured thing has {e}|What object is named with {e}|Tell me what object {e} has|Which thing does {e} have|What did {e} get or carry]?",
    asksBack: "[Who has {v}|Who is named with {v}|To whom does {v} belong|Which person has {v}]?",
  },
  {
    name: "weekday",
    makeValue: oneOf(days),
    says: "[{e} plays cards on {v}.|{e} goes to the market on {v}.|{e} visits a friend on {v}.|On {v}, {e} bakes bread.]",
    asks: "[On which day is {e} busy|Which weekday is named with {e}|On what day does {e} have plans|Which day of the week goes with {e}|What day is it for {e}|When in the week is {e} busy|Tell me the weekday for {e}|On which weekday does {e} have plans]?",
    asksBack: "[Who is busy on {v}|Who has plans on {v}|Which person is busy on {v}]?",
  },
  {
    name: "birthday",
    makeValue: (random) => `${random.int(1, 28)} ${random.pick(months)}`,
    says: "[{e} has a birthday on {v}.|The birthday of {e} is on {v}.|Everyone meets at {e}'s house on {v}, the birthday.]",
    asks: "[When is {e}'s birthday|When is the birthday of {e}|On what date is {e}'s birthday|On which date does {e} have a birthday|Tell me the birthday of {e}|What is {e}'s birthday|Which date is the birthday of {e}|What day is {e}'s birthday]?",
    asksBack: "[Whose birthday is on {v}|Who has a birthday on {v}|Who was born on {v}]?",
  },
  {
    name: "employer",
    makeValue: firm,
    says: "[{e} has a job at {v}.|{e} works for {v}.|{e} joined {v} in the autumn.|Every morning {e} takes the bus to {v}.]",
    asks: "[Where does {e} work|Which company does {e} work for|For whom does {e} work|Who employs {e}|What is {e}'s company|At which company is {e}|Tell me the company of {e}|Which firm is named with {e}]?",
    asksBack: "[Who works for {v}|Who works at {v}|Which person is at {v}|Who has a job at {v}]?",
  },
  {
    name: "friend",
    makeValue: fullName,
    says: "[{e}'s best friend is {v}.|{e} shares a house with {v}.|{e} is married to {v}.|{e} went to school with {v}.]",
    asks: "[Which person is close to {e}|Who is named together with {e}|With whom is {e} connected|Who belongs with {e}|Who is close to {e}|Tell me who is close to {e}|Who is the other person named with {e}|Whom does the text connect with {e}]?",
  },
  {
    name: "phone",
    makeValue: (random) => digits(random, random.int(3, 6)),
    says: "[{e} can be reached at extension {v}.|The phone number of {e} is {v}.|Call {e} at {v}.]",
    asks: "[What is {e}'s phone number|What is the number of {e}|At what number can I reach {e}|How can I reach {e} by phone|Which number belongs to {e}|Tell me the phone number of {e}|What number should I call for {e}|Under which number is {e} reached]?",
    asksBack: "[Whose number is {v}|Who can be reached at {v}|Who has the number {v}]?",
  },
  {
    name: "street",
    makeValue: address,
    says: "[{e}'s door is at {v}.|Letters for {e} go to {v}.|{e} has rented rooms at {v}.|The address of {e} is {v}.]",
    asks: "[What is {e}'s address|What is the address of {e}|At which address is {e}|Where do letters for {e} go|Which address belongs to {e}|Tell me the address of {e}|Under which address can I find {e}|Which house is {e}'s]?",
    asksBack: "[Who is at {v}|Whose address is {v}|Who can be found at {v}]?",
  },
];
