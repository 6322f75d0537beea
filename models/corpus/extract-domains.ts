/**
 * What extraction paragraphs are about: domains, their facts, how each is told and by which keys it may be asked for.
 */
import { animals, foods } from "./fact-tables.js";
import { address, cities, firm, firstName, firstNames, fullName, inventName, street, town } from "./names.js";
import type { Random } from "./random.js";
import { amount, code, count, date, email, phoneNumber, time } from "./values.js";
import { adjectives, colours, hobbies, jobs, materials, nouns, objects, rooms, verbs, weathers } from "./words.js";

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };
export type FieldType = "string" | "integer" | "number" | "boolean" | "array of strings";

export interface Fact {
  readonly value: JsonValue;
  /** The value as a sentence has it. */
  readonly text: string;
}

export interface Facet {
  /** Names in snake case; a request uses one of them. */
  readonly keys: readonly string[];
  readonly type: FieldType;
  readonly make: (random: Random) => Fact;
  /** Template with `{v}`; booleans have one for true and one for false. */
  readonly says: string | readonly [whenTrue: string, whenFalse: string];
}

export interface Domain {
  readonly names: readonly string[];
  /** Opens the paragraph and states nothing that is asked for. */
  readonly leads: string;
  readonly facets: readonly Facet[];
}

type Make = (random: Random) => string;

const text = (keys: string, make: Make, says: string): Facet => ({
  keys: keys.split(" "),
  type: "string",
  make: (random) => {
    const value = make(random);
    return { value, text: value };
  },
  says,
});

const numeric =
  (type: "integer" | "number") =>
  (keys: string, make: Make, says: string): Facet => ({
    keys: keys.split(" "),
    type,
    make: (random) => {
      const written = make(random);
      return { value: Number(written), text: written };
    },
    says,
  });
const integer = numeric("integer");
const decimal = numeric("number");

const flag = (keys: string, whenTrue: string, whenFalse: string): Facet => ({
  keys: keys.split(" "),
  type: "boolean",
  make: (random) => ({ value: random.isChance(0.5), text: "" }),
  says: [whenTrue, whenFalse],
});

const list = (keys: string, make: (random: Random) => readonly string[], says: string): Facet => ({
  keys: keys.split(" "),
  type: "array of strings",
  make: (random) => {
    const value = make(random);
    const joint = value.length < 2 ? value.join("") : `${value.slice(0, -1).join(", ")} and ${value.at(-1)}`;
    return { value, text: joint };
  },
  says,
});

const oneOf =
  (items: string): Make =>
  (random) =>
    random.pick(items.split(", "));
const upTo =
  (max: number): Make =>
  (random) =>
    String(count(random, max));
const between =
  (min: number, max: number): Make =>
  (random) =>
    String(random.int(min, max));
const price: Make = (random) => amount(random);
const people = (random: Random): string[] => firstNames(random, random.int(1, 4));
const foodList = (random: Random): string[] => random.sample(foods, random.int(2, 5)).map((food) => food[1]);
const nounList = (random: Random): string[] => random.sample(nouns, random.int(1, 4));
const thing: Make = (random) => `${random.pick([...colours, ...materials, ...adjectives])} ${random.pick(objects)}`;
const title: Make = (random) =>
  `The ${random.pick([...adjectives, ...colours]).replace(/^./, (letter) => letter.toUpperCase())} ${random.pick(objects).replace(/^./, (letter) => letter.toUpperCase())}`;

export const domains: readonly Domain[] = [
  {
    names: ["invoice", "bill", "invoice text"],
    leads:
      "[Here is the invoice you asked for.|Dear customer, please find our bill below.|Thank you for your business.|Our books show one open bill.|]",
    facets: [
      text(
        "invoice_number invoice_id number",
        code,
        "[The invoice number is {v}.|This is invoice {v}.|It is filed as invoice {v}.|Please quote invoice number {v}.]",
      ),
      text(
        "customer customer_name client",
        fullName,
        "[The customer is {v}.|It was made out to {v}.|The client is {v}.|It goes to {v}.]",
      ),
      text(
        "company vendor seller supplier",
        firm,
        "[It was issued by {v}.|The seller is {v}.|{v} sent it.|It comes from {v}.]",
      ),
      text("date invoice_date issued", date, "[It was issued on {v}.|The invoice date is {v}.|It is dated {v}.]"),
      text("due_date due payable_by", date, "[Payment is due on {v}.|Please pay by {v}.|It is payable until {v}.]"),
      decimal(
        "total amount total_amount",
        price,
        "[The total is {v} euros.|It comes to {v} euros in all.|The amount is {v} dollars.|In total, {v} dollars must be paid.]",
      ),
      integer(
        "items item_count quantity",
        upTo(60),
        "[It lists {v} items.|There are {v} items on it.|It covers {v} pieces.]",
      ),
      flag(
        "paid is_paid",
        "[It has been paid.|The money has arrived.|Payment was received.]",
        "[It has not been paid yet.|The money has not arrived.|It is still unpaid.]",
      ),
      text(
        "street address billing_address",
        address,
        "[The billing address is {v}.|Send it to {v}.|The customer lives at {v}.]",
      ),
      decimal("tax tax_amount vat", price, "[The tax is {v}.|This includes {v} of tax.|Tax of {v} is part of it.]"),
    ],
  },
  {
    names: ["booking", "reservation", "booking note"],
    leads:
      "[A new booking came in.|We are glad to confirm your stay.|The front desk wrote this down.|Good news from the hotel.|]",
    facets: [
      text(
        "guest guest_name name",
        fullName,
        "[The guest is {v}.|It was booked by {v}.|The room is for {v}.|The booking is in the name of {v}.]",
      ),
      text(
        "hotel hotel_name",
        (random) => `Hotel ${inventName(random)}`,
        "[The guest will stay at {v}.|The room is at {v}.|It is booked at {v}.]",
      ),
      text("city town location", town, "[The hotel is in {v}.|The stay is in {v}.|The trip goes to {v}.]"),
      text("check_in arrival from", date, "[The stay begins on {v}.|Arrival is on {v}.|The guest checks in on {v}.]"),
      text("check_out departure until", date, "[The guest leaves on {v}.|Departure is on {v}.|The stay ends on {v}.]"),
      integer(
        "nights num_nights",
        upTo(28),
        "[It is for {v} nights.|The guest stays {v} nights.|{v} nights were booked.]",
      ),
      integer("room room_number", between(101, 940), "[The room number is {v}.|It is room {v}.|Room {v} was given.]"),
      decimal(
        "price rate price_per_night",
        price,
        "[A night costs {v} euros.|The price per night is {v} dollars.|The rate is {v} a night.]",
      ),
      flag(
        "breakfast breakfast_included",
        "[Breakfast is included.|The price includes breakfast.|Breakfast comes with the room.]",
        "[Breakfast is not included.|There is no breakfast.|Breakfast costs extra.]",
      ),
      list("guests travellers names", people, "[The party is {v}.|Those who travel are {v}.|It is for {v}.]"),
      text(
        "reference booking_code confirmation",
        code,
        "[The booking code is {v}.|Its reference is {v}.|The confirmation reads {v}.]",
      ),
    ],
  },
  {
    names: ["person", "contact", "profile", "user profile"],
    leads: "[Let me introduce someone.|This is from our staff pages.|A short profile follows.|We have a new member.|]",
    facets: [
      text("name full_name", fullName, "[The name is {v}.|This is {v}.|Meet {v}.|Everyone calls this person {v}.]"),
      integer("age", between(17, 92), "[The age is {v}.|The person is {v} years old.|At {v}, life is good.]"),
      text("city home_town lives_in", town, "[Home is in {v}.|The person lives in {v}.|The family moved to {v}.]"),
      text(
        "job profession occupation",
        (random) => random.pick(jobs),
        "[The job is {v}.|By trade: {v}.|The profession is {v}.|Work means being a {v}.]",
      ),
      text("company employer", firm, "[The employer is {v}.|The office is at {v}.|Every day starts at {v}.]"),
      text("email email_address", email, "[Mail reaches {v}.|The email address is {v}.|Write to {v}.]"),
      text("phone phone_number", phoneNumber, "[The phone number is {v}.|Call {v}.|The telephone is {v}.]"),
      list(
        "hobbies interests",
        (random) => random.sample(hobbies, random.int(1, 4)),
        "[The hobbies are {v}.|Free time is for {v}.|Interests: {v}.]",
      ),
      flag(
        "married is_married",
        "[The person is married.|There was a wedding.|A wedding ring tells the rest.]",
        "[The person is not married.|There was no wedding yet.|The person is single.]",
      ),
      integer(
        "children num_children",
        upTo(6),
        "[There are {v} children.|The family has {v} children.|{v} children live there too.]",
      ),
      text("birthday date_of_birth born", date, "[The birthday is {v}.|Birth was on {v}.|The person was born on {v}.]"),
    ],
  },
  {
    names: ["product", "offer", "product description"],
    leads: "[New in our shop.|This week's offer is here.|A good thing for every home.|Look what came in today.|]",
    facets: [
      text(
        "product name product_name title",
        thing,
        "[It is called the {v}.|We sell the {v}.|The product is the {v}.|You get the {v}.]",
      ),
      text("brand maker manufacturer", firm, "[It is made by {v}.|The brand is {v}.|{v} makes it.]"),
      decimal("price cost", price, "[The price is {v} euros.|It costs {v} dollars.|You pay {v} euros.]"),
      text(
        "colour color",
        (random) => random.pick(colours),
        "[Its colour is {v}.|It is painted {v}.|It comes in {v}.]",
      ),
      text(
        "material made_of",
        (random) => random.pick(materials),
        "[It is made of {v}.|The material is {v}.|We used {v}.]",
      ),
      decimal(
        "weight weight_kg",
        (random) => amount(random, 40),
        "[It weighs {v} kg.|The weight is {v} kg.|With {v} kg it is easy to carry.]",
      ),
      flag(
        "in_stock available",
        "[It is in stock.|We have it here.|You can take it home today.]",
        "[It is out of stock.|It is sold out.|We have none left.]",
      ),
      text("sku product_code article", code, "[The product code is {v}.|Its number is {v}.|Order it as {v}.]"),
      integer(
        "warranty_years warranty",
        upTo(10),
        "[The warranty is {v} years.|It comes with {v} years of warranty.|We repair it for {v} years.]",
      ),
      decimal(
        "rating stars",
        (random) => `${random.int(1, 4)}.${random.int(1, 9)}`,
        "[Buyers give it {v} stars.|Its rating is {v}.|It is rated {v}.]",
      ),
      list("tags categories keywords", nounList, "[It is filed under {v}.|Tags: {v}.|Look for it under {v}.]"),
    ],
  },
  {
    names: ["incident", "incident report", "ticket"],
    leads:
      "[We had some trouble.|This is a report from the night shift.|Please read this before the meeting.|Something went wrong.|]",
    facets: [
      text("ticket ticket_id incident_id id", code, "[The ticket is {v}.|It is tracked as {v}.|See {v} for details.]"),
      text(
        "service system component",
        (random) => `${random.pick(nouns)}-${random.pick(["api", "db", "worker", "proxy", "service", "queue"])}`,
        "[The service {v} failed.|It hit {v}.|The problem was in {v}.]",
      ),
      text(
        "severity priority level",
        oneOf("low, medium, high, critical"),
        "[The severity was {v}.|Its priority is {v}.|It was rated {v}.]",
      ),
      text("started start_time began_at", time, "[It began at {v}.|The first alarm came at {v}.|It started at {v}.]"),
      text("ended end_time resolved_at", time, "[It ended at {v}.|All was well again at {v}.|It was solved at {v}.]"),
      integer(
        "duration_minutes duration minutes",
        between(2, 600),
        "[It lasted {v} minutes.|The outage took {v} minutes.|After {v} minutes it was over.]",
      ),
      text("reporter reported_by", fullName, "[{v} reported it.|It was reported by {v}.|The report came from {v}.]"),
      text(
        "assignee owner assigned_to",
        fullName,
        "[{v} takes care of it.|It is assigned to {v}.|It was given to {v}.]",
      ),
      flag(
        "resolved is_resolved fixed",
        "[It has been fixed.|It is solved now.|The cause was removed.]",
        "[It has not been fixed yet.|It is still open.|We are still looking for the cause.]",
      ),
      integer(
        "affected_users users_affected users",
        between(3, 9000),
        "[{v} users were affected.|It hit {v} users.|{v} people saw errors.]",
      ),
      text(
        "cause root_cause",
        (random) => `a ${random.pick(["full", "broken", "slow", "missing", "wrong", "lost"])} ${random.pick(nouns)}`,
        "[The cause was {v}.|It was caused by {v}.|We found {v} behind it.]",
      ),
    ],
  },
  {
    names: ["recipe", "dish"],
    leads: "[Here is a family recipe.|You will like this one.|A dish for cold evenings.|From my grandmother's book.|]",
    facets: [
      text(
        "dish name title",
        (random) =>
          `${random.pick(foods)[0]} ${random.pick(["soup", "pie", "salad", "cake", "stew", "bread", "curry", "jam"])}`,
        "[It is called {v}.|We are making {v}.|The dish is {v}.]",
      ),
      integer(
        "servings serves portions",
        between(1, 16),
        "[It serves {v}.|It is enough for {v} people.|This makes {v} portions.]",
      ),
      integer(
        "minutes cooking_minutes time_minutes",
        between(4, 240),
        "[It takes {v} minutes.|After {v} minutes it is done.|Cook it for {v} minutes.]",
      ),
      list("ingredients", foodList, "[You need {v}.|The ingredients are {v}.|Take {v}.]"),
      integer(
        "temperature oven_temperature",
        between(120, 260),
        "[Heat the oven to {v} degrees.|The oven should be at {v} degrees.|Bake it at {v} degrees.]",
      ),
      text(
        "difficulty level",
        oneOf("easy, medium, hard"),
        "[It is {v} to make.|The difficulty is {v}.|Most cooks call it {v}.]",
      ),
      flag(
        "vegetarian is_vegetarian",
        "[It is vegetarian.|There is no meat in it.|Vegetarians may eat it.]",
        "[It is not vegetarian.|There is meat in it.|Vegetarians should not eat it.]",
      ),
      text("author cook by", fullName, "[It was written down by {v}.|The recipe is by {v}.|{v} cooked it first.]"),
      integer(
        "calories kcal",
        between(80, 950),
        "[A portion has {v} calories.|It has {v} calories.|Count {v} calories for each plate.]",
      ),
      text(
        "country origin",
        oneOf("Italy, Spain, Greece, Japan, Peru, Kenya, Norway, Poland, Hungary, Ireland, Cuba, Egypt"),
        "[It comes from {v}.|People eat it in {v}.|It is a dish from {v}.]",
      ),
    ],
  },
  {
    names: ["event", "announcement", "invitation"],
    leads:
      "[You are invited.|Please come and bring your friends.|Save the date.|There is something to look forward to.|]",
    facets: [
      text(
        "event title event_name name",
        (random) =>
          `${random.pick(["Spring", "Summer", "Winter", "Autumn", "Night", "City", "Open"])} ${random.pick(["Fair", "Concert", "Run", "Market", "Dance", "Picnic", "Festival", "Workshop"])}`,
        "[It is the {v}.|The event is called {v}.|We are planning the {v}.]",
      ),
      text("date day", date, "[It is on {v}.|It takes place on {v}.|The date is {v}.]"),
      text("time start_time starts_at", time, "[It starts at {v}.|We begin at {v}.|Be there by {v}.]"),
      text(
        "venue place location",
        (random) => `${random.pick(rooms)} on ${street(random)}`,
        "[It is held at the {v}.|Come to the {v}.|We meet at the {v}.]",
      ),
      text("city town", town, "[It is in {v}.|All this happens in {v}.|The town is {v}.]"),
      text("organiser host organizer", fullName, "[It is organised by {v}.|Your host is {v}.|{v} runs it.]"),
      decimal("ticket_price price fee", price, "[A ticket costs {v} euros.|The fee is {v}.|Entry is {v} euros.]"),
      integer(
        "capacity max_guests seats",
        between(10, 900),
        "[There are {v} seats.|There is room for {v} guests.|At most {v} people can come.]",
      ),
      flag(
        "outdoor outdoors open_air",
        "[It is outdoors.|It is in the open air.|Bring a coat, as we are outside.]",
        "[It is indoors.|It is not outside.|We have a roof over our heads.]",
      ),
      list("speakers performers artists", people, "[On stage are {v}.|You will hear {v}.|With {v}.]"),
    ],
  },
  {
    names: ["book", "library record", "book entry"],
    leads:
      "[A book for long evenings.|From the shelf of new books.|Our reader's tip of the week.|The library has something new.|]",
    facets: [
      text("title book_title name", title, "[The title is {v}.|The book is called {v}.|It is named {v}.]"),
      text("author writer written_by", fullName, "[It was written by {v}.|The author is {v}.|{v} wrote it.]"),
      integer(
        "year published year_published",
        between(1890, 2024),
        "[It came out in {v}.|It was published in {v}.|The first print is from {v}.]",
      ),
      integer(
        "pages num_pages page_count",
        between(60, 990),
        "[It has {v} pages.|You read {v} pages.|On {v} pages it tells its story.]",
      ),
      text(
        "genre category",
        oneOf("crime, poetry, history, travel, fantasy, romance, science, biography, horror, humour"),
        "[The genre is {v}.|It belongs to {v}.|It stands with the {v} books.]",
      ),
      text(
        "publisher press",
        (random) => `${inventName(random)} ${random.pick(["Press", "Books", "House"])}`,
        "[The publisher is {v}.|It was printed by {v}.|It is from {v}.]",
      ),
      text("isbn code shelf_mark", code, "[Its number is {v}.|Find it under {v}.|The code on the back is {v}.]"),
      flag(
        "available in_library",
        "[It can be borrowed.|It is on the shelf.|A copy is free.]",
        "[It is lent out.|No copy is free.|It cannot be borrowed now.]",
      ),
      list("characters heroes", people, "[It tells of {v}.|Its heroes are {v}.|You will meet {v}.]"),
      text(
        "language",
        oneOf("English, German, French, Spanish, Italian, Polish, Danish, Greek, Turkish"),
        "[It is in {v}.|The language is {v}.|It was written in {v}.]",
      ),
    ],
  },
  {
    names: ["shipment", "parcel", "delivery"],
    leads:
      "[Your parcel is on the way.|A note from the depot.|This is what the driver wrote.|An update on the delivery.|]",
    facets: [
      text(
        "tracking_number tracking tracking_id",
        code,
        "[The tracking number is {v}.|Track it as {v}.|It travels as {v}.]",
      ),
      text("sender from shipper", firm, "[It was sent by {v}.|The sender is {v}.|It comes from {v}.]"),
      text("recipient receiver to", fullName, "[It is for {v}.|The recipient is {v}.|It should reach {v}.]"),
      text("origin origin_city", town, "[It left {v}.|It was picked up in {v}.|It started in {v}.]"),
      text("destination destination_city", town, "[It goes to {v}.|It is bound for {v}.|The destination is {v}.]"),
      decimal(
        "weight weight_kg",
        (random) => amount(random, 60),
        "[It weighs {v} kg.|The weight is {v} kg.|The scale says {v} kg.]",
      ),
      integer(
        "boxes parcels num_boxes",
        upTo(40),
        "[There are {v} boxes.|It is packed in {v} boxes.|{v} boxes belong to it.]",
      ),
      text("delivery_date arrives eta", date, "[It should arrive on {v}.|Delivery is on {v}.|Expect it on {v}.]"),
      flag(
        "fragile is_fragile",
        "[It is fragile.|Handle it with care.|It can break.]",
        "[It is not fragile.|It cannot break.|It needs no special care.]",
      ),
      text(
        "status state",
        oneOf("sent, waiting, delayed, delivered, lost, returned"),
        "[Its status is {v}.|It is marked as {v}.|The computer says {v}.]",
      ),
      list(
        "contents goods",
        (random) => random.sample(objects, random.int(1, 4)),
        "[Inside are {v}.|It holds {v}.|The contents: {v}.]",
      ),
    ],
  },
  {
    names: ["appointment", "calendar entry", "meeting"],
    leads:
      "[A date for your calendar.|I called the office this morning.|Please note the following.|We found a time that works.|]",
    facets: [
      text("person patient name", fullName, "[It is for {v}.|{v} asked for it.|The name is {v}.]"),
      text(
        "doctor with expert",
        (random) => `Dr. ${inventName(random)}`,
        "[It is with {v}.|{v} will see you.|You will meet {v}.]",
      ),
      text("date day", date, "[It is on {v}.|The day is {v}.|We wrote down {v}.]"),
      text("time at hour", time, "[It is at {v}.|Come at {v}.|The time is {v}.]"),
      text(
        "room place",
        (random) => `room ${random.int(1, 480)}`,
        "[Go to {v}.|It takes place in {v}.|The door says {v}.]",
      ),
      integer(
        "minutes duration duration_minutes",
        between(5, 180),
        "[It takes {v} minutes.|Plan {v} minutes.|{v} minutes are set aside.]",
      ),
      text(
        "reason purpose topic",
        (random) => `${random.pick(["the", "a new", "an old", "the broken", "the lost"])} ${random.pick(nouns)}`,
        "[It is about {v}.|The reason is {v}.|They will talk about {v}.]",
      ),
      flag(
        "confirmed is_confirmed",
        "[It is confirmed.|They said yes.|It is certain.]",
        "[It is not confirmed.|They have not answered.|It is not certain yet.]",
      ),
      text(
        "phone phone_number contact",
        phoneNumber,
        "[For changes call {v}.|The phone number is {v}.|Ring {v} if you are late.]",
      ),
      list("participants attendees people", people, "[{v} will be there.|Those who come are {v}.|It was sent to {v}.]"),
    ],
  },
  {
    names: ["animal", "pet", "adoption notice"],
    leads:
      "[This one needs a home.|A friend with four legs, or two, or none.|From the animal shelter.|Please take a look.|]",
    facets: [
      text("name pet_name", firstName, "[The name is {v}.|We call it {v}.|It listens to {v}.]"),
      text(
        "species animal kind",
        (random) => random.pick(animals).name,
        "[It is a kind of {v}.|The animal is a {v}.|What you see is a {v}.]",
      ),
      integer(
        "age age_years years",
        upTo(25),
        "[It is {v} years old.|Its age is {v}.|It was found {v} years ago as a baby.]",
      ),
      text(
        "colour color",
        (random) => random.pick(colours),
        "[Its colour is {v}.|It is {v}.|It looks {v} in the sun.]",
      ),
      decimal(
        "weight weight_kg",
        (random) => amount(random, 90),
        "[It weighs {v} kg.|Its weight is {v} kg.|The scale shows {v} kg.]",
      ),
      text("owner keeper", fullName, "[The keeper is {v}.|{v} takes care of it.|It belonged to {v}.]"),
      text("shelter place city", town, "[It lives in {v}.|You find it in {v}.|The shelter is in {v}.]"),
      flag(
        "vaccinated is_vaccinated",
        "[It is vaccinated.|It has had its shots.|The vaccines are done.]",
        "[It is not vaccinated.|It has not had its shots.|The vaccines are missing.]",
      ),
      list("likes favourite_foods foods", foodList, "[It likes {v}.|It eats {v}.|Give it {v}.]"),
      text(
        "character temper mood",
        (random) => random.pick(adjectives),
        "[It is very {v}.|Its temper is {v}.|People call it {v}.]",
      ),
    ],
  },
  {
    names: ["flat", "listing", "house offer"],
    leads: "[A place to live.|From today's paper.|Maybe this is your new home.|A quiet corner of town.|]",
    facets: [
      text("address street", address, "[It is at {v}.|The address is {v}.|You find it at {v}.]"),
      text("city town", (random) => random.pick(cities), "[It is in {v}.|The city is {v}.|You would live in {v}.]"),
      integer("rooms num_rooms", between(1, 12), "[It has {v} rooms.|There are {v} rooms.|You get {v} rooms.]"),
      decimal(
        "rent price monthly_rent",
        (random) => amount(random, 3000),
        "[The rent is {v} euros.|It costs {v} a month.|You pay {v} euros each month.]",
      ),
      integer(
        "area square_metres size",
        between(18, 320),
        "[It measures {v} square metres.|It has {v} square metres.|The area is {v} square metres.]",
      ),
      integer(
        "floor storey",
        between(1, 30),
        "[It is on floor {v}.|The floor is number {v}.|Take the stairs to floor {v}.]",
      ),
      flag(
        "furnished is_furnished",
        "[It is furnished.|The furniture stays.|Tables and beds are there.]",
        "[It is not furnished.|The rooms are empty.|Bring your own furniture.]",
      ),
      flag(
        "pets_allowed pets",
        "[Pets are allowed.|Your cat may come too.|Pets are welcome.]",
        "[Pets are not allowed.|No pets, please.|Your cat has to stay away.]",
      ),
      text("landlord owner contact", fullName, "[The owner is {v}.|Ask for {v}.|It belongs to {v}.]"),
      text(
        "free_from available_from move_in",
        date,
        "[It is free from {v}.|You can move in on {v}.|It is empty from {v}.]",
      ),
    ],
  },
  {
    names: ["log", "server log", "machine status", "server report"],
    leads: "[All machines were checked.|The monitor sent this.|Here is the state of things.|Last night's report.|]",
    facets: [
      text(
        "host hostname server",
        (random) => `${random.pick(nouns)}${random.int(1, 40)}`,
        "[The host is {v}.|This is about {v}.|The server {v} was checked.]",
      ),
      text(
        "status state health",
        oneOf("ok, degraded, down, starting, stopped, overloaded"),
        "[Its status is {v}.|It is {v}.|The state reads {v}.]",
      ),
      integer("port", between(1024, 65000), "[It listens on port {v}.|The port is {v}.|It was reached on port {v}.]"),
      decimal(
        "cpu cpu_percent load",
        (random) => `${random.int(1, 98)}.${random.int(1, 9)}`,
        "[The processor is at {v} percent.|Its load is {v} percent.|The CPU stands at {v} percent.]",
      ),
      integer(
        "memory_mb memory",
        between(128, 64000),
        "[It uses {v} MB of memory.|The memory in use is {v} MB.|{v} MB are taken.]",
      ),
      text(
        "version release",
        (random) => `${random.int(0, 9)}.${random.int(0, 30)}.${random.int(0, 9)}`,
        "[It runs version {v}.|The version is {v}.|Release {v} is installed.]",
      ),
      integer(
        "requests num_requests",
        between(10, 90000),
        "[It answered {v} requests.|There were {v} requests.|{v} requests came in.]",
      ),
      integer(
        "errors num_errors",
        between(1, 400),
        "[There were {v} errors.|{v} errors were seen.|It counted {v} errors.]",
      ),
      flag(
        "encrypted tls",
        "[The connection is encrypted.|It uses TLS.|All traffic is encrypted.]",
        "[The connection is not encrypted.|It does not use TLS.|The traffic is in the open.]",
      ),
      list(
        "services processes jobs",
        (random) => random.sample(verbs, random.int(1, 4)).map((verb) => `${verb}d`),
        "[It runs {v}.|The jobs are {v}.|On it are {v}.]",
      ),
    ],
  },
  {
    names: ["match", "game report", "sports report"],
    leads: "[What a game.|The crowd was loud.|A report from the field.|The season goes on.|]",
    facets: [
      text(
        "home_team home",
        (random) => `${random.pick(cities)} ${random.pick(["United", "City", "Rovers", "Lions", "Stars"])}`,
        "[At home played {v}.|The home team was {v}.|The hosts were {v}.]",
      ),
      text(
        "away_team away guests",
        (random) => `${random.pick(cities)} ${random.pick(["Wanderers", "Bears", "Eagles", "Sharks", "Foxes"])}`,
        "[The guests were {v}.|The away team was {v}.|From far away came {v}.]",
      ),
      integer(
        "home_goals home_score",
        between(0, 9),
        "[The hosts made {v} goals.|The home side scored {v}.|At home they got {v} goals.]",
      ),
      integer(
        "away_goals away_score",
        between(0, 9),
        "[The guests made {v} goals.|The away side scored {v}.|The visitors got {v} goals.]",
      ),
      text(
        "stadium venue",
        (random) => `${inventName(random)} ${random.pick(["Park", "Arena", "Field", "Stadium"])}`,
        "[They met at {v}.|It was played at {v}.|The place was {v}.]",
      ),
      integer(
        "spectators attendance",
        between(40, 60000),
        "[{v} people watched.|There were {v} spectators.|The crowd was {v} strong.]",
      ),
      text("referee", fullName, "[The referee was {v}.|{v} had the whistle.|The whistle was in the hands of {v}.]"),
      text("date played_on", date, "[It was played on {v}.|The date was {v}.|It took place on {v}.]"),
      text("weather", (random) => random.pick(weathers), "[It was {v}.|The weather was {v}.|The sky was {v}.]"),
      flag(
        "extra_time overtime",
        "[It went into extra time.|They needed extra time.|It took longer than planned, with extra time.]",
        "[It ended in normal time.|There was no extra time.|They did not need extra time.]",
      ),
      list("scorers goal_scorers", people, "[The goals came from {v}.|The scorers were {v}.|Goals by {v}.]"),
    ],
  },
];
