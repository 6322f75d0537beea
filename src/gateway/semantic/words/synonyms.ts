/** Words with the same meaning in every question that we can think of. Words with several meanings are in no group. */

const SAFE = `
buy purchase
begin commence
big large
repair mend
assist aid
rapid speedy
car automobile
movie film
photo photograph
author writer
physician doctor
illness sickness
lawyer attorney
infant baby
bicycle bike
telephone phone
television tv
refrigerator fridge
advertisement ad
laboratory lab
mathematics maths math
vegetable veggie
colour color
favourite favorite
organise organize
analyse analyze
summarise summarize
optimise optimize
recognise recognize
realise realize
behaviour behavior
neighbour neighbor
centre center
licence license
grey gray
theatre theater
aeroplane airplane
couch sofa
gasoline petrol
garbage trash rubbish
sidewalk pavement
diaper nappy
mum mom
wifi wi-fi
advantage benefit
disadvantage drawback downside
firm company
nation country
required needed
permitted allowed
forbidden prohibited
whole entire
nearly almost
maybe perhaps
inexpensive cheap
simple easy
often frequently
quickly rapidly
kid child
kids children
occur happen
`;

/** Further groups, right in most questions: only the mode `balanced` uses them. */
const WIDE = `
start begin commence
fix repair mend
help assist aid
quick fast rapid speedy
picture photo photograph image
error mistake
job occupation profession
sign symptom indication
delete remove erase
create make
show display
use utilize utilise
need require
try attempt
find locate
keep retain
learn study
cause reason
effect impact consequence
method technique approach
idea suggestion tip
improve enhance
reduce decrease lower
explain describe
tall high
sick ill
smart intelligent clever
happy glad
hard difficult
cook prepare
construct build
clean wash
speak talk
live reside
house home
road street
shop store
price cost
trip journey
choose select pick
advantage benefit pro
disadvantage drawback downside con
`;

function groups(text: string): ReadonlyMap<string, number> {
  const lines = text.trim().split("\n");
  return new Map(lines.flatMap((line, i) => line.split(" ").map((word): [string, number] => [word, i])));
}

export const SAFE_SYNONYMS = groups(SAFE);
export const WIDE_SYNONYMS = groups(WIDE);
