/** What the bundled model knows about the world: small tables, one row per thing. */

interface Animal {
  readonly name: string;
  readonly sound: string;
  readonly kind: string;
  readonly home: string;
  readonly food: string;
  readonly young: string;
  readonly numLegs: number;
  /** Rank only: a larger number is a larger animal. */
  readonly size: number;
}

const rows = (text: string): string[][] =>
  text
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim()));

export const animals: readonly Animal[] = rows(`
cat|meows|mammal|in a house|fish|kitten|4|30
dog|barks|mammal|in a house|meat|puppy|4|45
cow|moos|mammal|on a farm|grass|calf|4|80
horse|neighs|mammal|in a stable|hay|foal|4|78
sheep|bleats|mammal|on a farm|grass|lamb|4|50
pig|oinks|mammal|on a farm|corn|piglet|4|52
goat|bleats|mammal|on a farm|leaves|kid|4|48
duck|quacks|bird|on a pond|seeds|duckling|2|22
hen|clucks|bird|on a farm|corn|chick|2|21
goose|honks|bird|on a pond|grass|gosling|2|26
owl|hoots|bird|in a hollow tree|mice|owlet|2|20
crow|caws|bird|in a tall tree|seeds|chick|2|18
frog|croaks|amphibian|in a pond|flies|tadpole|4|8
lion|roars|mammal|in the savanna|meat|cub|4|70
tiger|roars|mammal|in the jungle|meat|cub|4|71
bear|growls|mammal|in the forest|berries|cub|4|75
wolf|howls|mammal|in the forest|meat|pup|4|46
fox|barks|mammal|in a den|rabbits|kit|4|34
mouse|squeaks|mammal|in a small hole|cheese|pup|4|5
elephant|trumpets|mammal|in the savanna|leaves|calf|4|95
monkey|chatters|mammal|in the jungle|bananas|infant|2|40
snake|hisses|reptile|in the grass|mice|hatchling|0|15
bee|buzzes|insect|in a hive|nectar|larva|6|1
rabbit|squeaks|mammal|in a burrow|carrots|bunny|4|25
squirrel|chatters|mammal|in a tree|nuts|kit|4|12
hedgehog|snuffles|mammal|under a hedge|worms|hoglet|4|11
deer|bleats|mammal|in the forest|grass|fawn|4|60
whale|sings|mammal|in the sea|krill|calf|0|100
dolphin|clicks|mammal|in the sea|fish|calf|0|66
seal|barks|mammal|by the sea|fish|pup|0|62
penguin|honks|bird|on the ice|fish|chick|2|33
parrot|squawks|bird|in the jungle|seeds|chick|2|17
turtle|hisses|reptile|in the sea|seaweed|hatchling|4|28
donkey|brays|mammal|on a farm|hay|foal|4|72
camel|grunts|mammal|in the desert|dry plants|calf|4|82
otter|chirps|mammal|by a river|fish|pup|4|29
eagle|screeches|bird|on a high cliff|fish|eaglet|2|27
swan|trumpets|bird|on a lake|water plants|cygnet|2|32
`).map(([name = "", sound = "", kind = "", home = "", food = "", young = "", numLegs, size]) => ({
  name,
  sound,
  kind,
  home,
  food,
  young,
  numLegs: Number(numLegs),
  size: Number(size),
}));

const pairs = (text: string): readonly (readonly [string, string])[] =>
  rows(text).map(([first = "", second = ""]) => [first, second] as const);

/** [singular, plural, category, colour] */
export const foods: readonly (readonly [string, string, string, string])[] = rows(`
apple|apples|fruit|red
banana|bananas|fruit|yellow
lemon|lemons|fruit|yellow
orange|oranges|fruit|orange
pear|pears|fruit|green
plum|plums|fruit|purple
cherry|cherries|fruit|red
strawberry|strawberries|fruit|red
lime|limes|fruit|green
peach|peaches|fruit|pink
mango|mangoes|fruit|orange
blueberry|blueberries|fruit|blue
kiwi|kiwis|fruit|green
carrot|carrots|vegetable|orange
tomato|tomatoes|vegetable|red
cucumber|cucumbers|vegetable|green
potato|potatoes|vegetable|brown
onion|onions|vegetable|white
pea|peas|vegetable|green
cabbage|cabbages|vegetable|green
pumpkin|pumpkins|vegetable|orange
bean|beans|vegetable|green
radish|radishes|vegetable|red
leek|leeks|vegetable|green
`).map(([singular = "", plural = "", category = "", colour = ""]) => [singular, plural, category, colour] as const);

/** [thing as a question names it, colour] */
export const colouredThings = pairs(`
the sky on a clear day|blue
grass|green
snow|white
the sun|yellow
blood|red
coal|black
milk|white
a leaf in summer|green
chocolate|brown
a frog|green
a polar bear|white
a crow|black
an elephant|grey
the sea|blue
gold|yellow
a flamingo|pink
a swan|white
the night sky|black
a fire engine|red
honey|golden
`);

export const opposites = pairs(`
hot|cold
big|small
tall|short
fast|slow
happy|sad
light|dark
old|young
wet|dry
open|closed
full|empty
hard|soft
loud|quiet
rich|poor
strong|weak
early|late
up|down
left|right
in|out
day|night
good|bad
high|low
long|short
near|far
clean|dirty
heavy|light
first|last
thick|thin
wide|narrow
brave|afraid
sweet|sour
summer|winter
yes|no
black|white
push|pull
buy|sell
give|take
laugh|cry
win|lose
start|stop
asleep|awake
`);

/** [country, capital] */
export const capitals = pairs(`
France|Paris
Germany|Berlin
Spain|Madrid
Italy|Rome
Portugal|Lisbon
Austria|Vienna
Poland|Warsaw
Norway|Oslo
Sweden|Stockholm
Finland|Helsinki
Ireland|Dublin
England|London
Greece|Athens
Egypt|Cairo
Japan|Tokyo
Peru|Lima
Kenya|Nairobi
Cuba|Havana
Switzerland|Bern
Belgium|Brussels
Hungary|Budapest
Denmark|Copenhagen
`);

/** [job, what the person does] */
export const jobDuties = pairs(`
baker|bakes bread and cakes
teacher|teaches children at school
nurse|takes care of sick people
doctor|helps sick people get well
farmer|grows food and keeps animals
painter|paints pictures and walls
carpenter|makes things out of wood
tailor|sews and mends clothes
gardener|looks after plants and flowers
fisherman|catches fish
librarian|looks after books
pilot|flies planes
sailor|works on a ship
cook|makes meals
writer|writes books and stories
builder|builds houses
plumber|mends pipes
dentist|takes care of teeth
miller|grinds grain into flour
postman|brings letters and parcels
firefighter|puts out fires
shepherd|looks after sheep
beekeeper|keeps bees and collects honey
astronomer|studies the stars
`);

/** [tool, what one does with it] */
export const toolUses = pairs(`
hammer|hit nails
knife|cut food
spoon|eat soup
umbrella|stay dry in the rain
pencil|write and draw
key|open a lock
clock|tell the time
lamp|light a room
broom|sweep the floor
needle|sew clothes
ladder|reach high places
map|find the way
telescope|look at the stars
bucket|carry water
towel|dry yourself
scissors|cut paper
ruler|measure things
saw|cut wood
phone|talk to people far away
boat|cross the water
oven|bake bread
mirror|see yourself
blanket|keep warm
rope|tie things together
`);

/** [noun, its definition after "is"] */
export const definitions = pairs(`
river|a long stream of water that flows to the sea
mountain|a very high hill made of rock
forest|a large place full of trees
island|land with water all around it
desert|a dry place with very little rain
volcano|a mountain that can throw out hot rock and ash
bridge|a path that crosses over water or a road
castle|a large old building with strong walls
library|a place where people read and borrow books
school|a place where children learn
hospital|a place where sick people get help
market|a place where people buy and sell things
harbour|a safe place for ships
mill|a building where grain is turned into flour
lighthouse|a tower with a light that guides ships
rainbow|an arc of colours in the sky after rain
cloud|many tiny drops of water in the sky
star|a huge ball of hot gas far away in the sky
moon|the round body that circles the earth
planet|a large round body that circles a star
computer|a machine that follows instructions and works with information
token|a small piece of text that a language model reads or writes
triangle|a shape with three sides
square|a shape with four equal sides
circle|a perfectly round shape
`);
