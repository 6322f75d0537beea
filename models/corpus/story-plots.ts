/**
 * The plots of stories: each a want, what stands in its way, and how it ends, a sentence or two per beat. Slots: `{h}`
 * the hero and `{H}` at the start of a sentence, `{he}` `{him}` `{his}` and `{He}` the pronouns, `{k}` the helper with
 * `{K}`, `{aK}` the helper introduced, `{thing}` a treasure, and the word lists of story-words.ts by their names.
 */
export interface Plot {
  /** What a request may say the story is about; the slot named must then be in the story. */
  readonly about: string;
  readonly slot: string;
  readonly want: string;
  readonly obstacle: string;
  readonly helper: string;
  /** The one who comes needs help instead of giving it. */
  readonly isHelperHelped?: true;
  readonly turn: string;
  readonly ending: string;
  /** What the hero learned. */
  readonly moral: string;
}

export const plots: readonly Plot[] = [
  {
    about: "a lost {thing}",
    slot: "thing",
    want: "[{H} had lost a {thing}, and nothing was dearer to {him}.|{H} noticed that the {thing} was gone.|What {h} loved most was a {thing}, but now it was missing.]",
    obstacle:
      "[{He} looked in every corner of the house, but found only dust.|{He} searched the garden, the cellar and the roof, and found nothing.|{He} asked everyone in the street, but nobody had seen it.] [By evening {he} felt very {feeling}.|{He} sat down and did not know what to do.|Then it began to rain.]",
    helper:
      '[Then {aK} came by.|At last {aK} stopped to listen.|{aK} had watched all this.] ["When did you have it last?" {said} {k}.|"Let us go back the way you came," {said} {k}.|"I saw something shine this morning," {said} {k}.]',
    turn: "[Together they looked once more.|They walked the whole way again, {speed}.|{H} closed {his} eyes and thought hard.] [And there it was: the {thing} lay {spot}.|There, {spot}, lay the {thing}.|The {thing} was {spot}, where nobody had looked.]",
    ending:
      "[{H} laughed and thanked {k} with {present}.|{H} gave {k} {present}.|{H} held it tight and invited {k} for {comfort}.]",
    moral: "[four eyes see more than two|help comes to those who ask for it|what is lost can be found with patience]",
  },
  {
    about: "learning to {skill}",
    slot: "skill",
    want: "[{H} wanted to learn to {skill}.|More than anything, {h} wanted to {skill}.|All the others could {skill}, only {h} could not.]",
    obstacle:
      '[The first try went wrong, and so did the second.|{He} tried it alone and failed.|{He} was too {feeling} even to begin.] [Some neighbours laughed.|"I will never learn it," {he} sighed.|{He} nearly gave up.]',
    helper:
      '[But {aK} had seen it.|One day {aK} sat down beside {him}.|Luckily there was {aK}.] ["Nobody is born a master," {said} {k}.|"Do it {speed}, and do it every day," {said} {k}.|"I needed a whole year myself," {said} {k}.]',
    turn: "[So they practised every morning until the bell rang.|Day after day they tried again.|{K} showed it {speed}, and {h} did the same.] [And one day {h} could {skill}.|After many weeks {h} could {skill} better than all the others.|Then, all at once, it worked.]",
    ending: "[Now {h} teaches others to {skill}.|{H} danced through the whole house.|That evening they had {comfort}.]",
    moral: "[it is never too late to learn|nobody is born a master|small steps lead far]",
  },
  {
    about: "a {thing} and a journey",
    slot: "thing",
    want: "[A letter came: {h} should bring a {thing} to {aK} before nightfall.|{H} had promised to bring a {thing} to {aK}.|{H} set out with a {thing} for {aK}, who lived far away.]",
    obstacle:
      '[The way led through {danger}.|Between them lay {danger}.|Soon {h} came to {danger}.] [{He} was {feeling}, but {he} went on.|"Turn back!" called the crows.|{His} feet hurt and the light grew dim.]',
    helper:
      '[There {he} met {aHelper}, who knew the way.|{aHelper} was resting by the road.|Just then {aHelper} came along.] ["Follow me and do not look down," {said} {helper}.|"I will go with you as far as the old oak," {said} {helper}.|"Take my lamp," {said} {helper}.]',
    turn: "[Step by step they crossed it.|{Speed}, they went on side by side.|They sang to keep up their spirits.] [When the sun sank, {h} knocked at {k}'s door.|Late that night {h} stood before {k}.|At last they saw a light in the window of {k}.]",
    ending:
      '[{K} took the {thing} and smiled: "I knew you would come."|{K} was so {feeling2} that they had {comfort}.|{K} hung the {thing} above the door, where it can be seen to this day.]',
    moral: "[a promise is a promise|courage is going on although one is afraid|the longest way begins with one step]",
  },
  {
    about: "a {contest}",
    slot: "contest",
    want: "[There was to be a {contest}, and {h} wanted to win it.|Every year there was a {contest}. This time {h} would take part.|{H} had heard of the {contest} and could think of nothing else.]",
    obstacle:
      '[But {h} was not as quick as the others.|The others were older and had done it often.|A day before, everything went wrong.] ["You have no chance," said a proud voice.|{He} felt {feeling} and could not sleep.|{He} thought of staying at home.]',
    helper:
      '[Then {aK} offered help.|But {aK} believed in {him}.|{aK} had once won it.] ["Do not look at the others," {said} {k}.|"Start {speed} and keep your breath," {said} {k}.|"It is the last minute that counts," {said} {k}.]',
    turn: "[On the great day {h} remembered these words.|The whole village came to watch.|When it began, {his} heart beat loudly.] [{He} did not come first, but {he} came second, and {he} had never been so {feeling2}.|To everyone's surprise, {he} won.|Near the end, {he} stopped to help a rival who had fallen, and everybody cheered.]",
    ending:
      "[{H} shared the prize with {k}: {present}.|Afterwards they had {comfort}.|{K} clapped louder than all the others.]",
    moral:
      "[nobody has to be the best|a good friend is worth more than a prize|who gives everything has nothing to regret]",
  },
  {
    about: "a {dish} for a friend",
    slot: "dish",
    want: "[It was the birthday of {aK}, and {h} wanted to make a {dish}.|{H} had promised a {dish} to {aK}.|A friend was ill, {aK}, so {h} decided to make a {dish} for {him2}.]",
    obstacle:
      "[But there was no {ingredient} in the house.|When everything stood ready, the {ingredient} was missing.|The cupboard was empty: no {ingredient}, not even a little.] [The shop had closed an hour ago.|{He} felt {feeling}, for the guests would come soon.|Outside, {sky}.]",
    helper:
      '[{H} knocked at the door of {aHelper}.|{aHelper} heard of it.|On the stairs {he} met {aHelper}.] ["I have {ingredient} enough for two," {said} {helper}.|"Take mine, and save me a piece," {said} {helper}.|"What is a feast without {ingredient}?" {said} {helper}.]',
    turn: "[So {h} stirred and tasted, and soon the whole house smelled wonderful.|{H} ran home and worked {speed}.|The {dish} went into the oven just in time.] [When {k} came in, the {dish} stood on the table.|It was a little burnt at one side, but nobody cared.|{K} tasted it and closed {his2} eyes.]",
    ending:
      '[They invited {helper} too and ate until nothing was left.|"The best I ever had," said {k}.|They had {comfort}.]',
    moral: "[sharing makes a meal taste better|neighbours are a treasure|a meal is made by those who eat it together]",
  },
  {
    about: "{noise} in the night",
    slot: "noise",
    want: "[One night {h} heard {noise}.|In the middle of the night {h} woke up: there was {noise}.|{H} lay in bed when {noise} came from outside.]",
    obstacle:
      '[{He} pulled the blanket over {his} head, but it did not stop.|{He} was {feeling} and held {his} breath.|Nobody else seemed to hear it.] [It came from the yard.|It grew louder.|"Who is there?" {he} called, but there was no answer.]',
    helper:
      '[So {he} woke {aK}, who lived next door.|Then {aK} knocked at the window.|{aK} had heard it too.] ["Let us look together," {said} {k}.|"I am afraid as well, so we shall hold hands," {said} {k}.|"It will have a reason," {said} {k}.]',
    turn: "[They took a lantern and went out {speed}.|They crept along the wall.|With one lamp between them they opened the door.] [It was only {harmless}.|And what did they find? It was {harmless}.|There sat the terrible monster: {harmless}.]",
    ending:
      "[They laughed until the sun came up.|{H} and {k} had {comfort}, and then they slept like stones.|Since that night, {h} is not afraid of the dark.]",
    moral:
      "[things look smaller in the light of a lamp|fear grows in the dark and shrinks when one looks|two are braver than one]",
  },
  {
    about: "the {broken}",
    slot: "broken",
    want: '[The {broken} was broken, and nobody could mend it.|One day the {broken} stopped working.|A storm had damaged the {broken}.] ["I will mend it," said {h}.|{H} wanted to help.|Everybody looked at {h}.]',
    obstacle:
      '[But {he} had neither money nor the right parts.|It was harder than it looked.|{He} worked a whole day, and in the evening it fell apart again.] ["Leave it to the experts," people said.|{He} was {feeling}.|Meanwhile, {sky}.]',
    helper:
      '[Then {aK} brought {tool}.|{aK} came with {tool}.|{aK} came and put down {tool}.] ["Two heads are better than one," {said} {k}.|"Hold this, and I will do the rest," {said} {k}.|They made a plan and drew it in the sand.]',
    turn: "[They worked all night, {speed}.|One held and the other hammered.|With {tool} it was suddenly easy.] [In the morning the {broken} was as good as new.|When the sun rose, the {broken} worked again.|The people came running, for the {broken} worked again.]",
    ending:
      "[The whole village thanked them with {comfort}.|As thanks they got {present}.|To this day, two names are scratched into it.]",
    moral: "[together the heaviest load is light|two heads are better than one|a good plan saves many steps]",
  },
  {
    about: "finding a friend",
    slot: "",
    want: "[{H} had everything but a friend.|{H} was often alone and wished for a friend.|Nobody ever knocked at {h}'s door.]",
    obstacle:
      "[{He} was too {trait2} to speak to others.|When others came, {he} hid behind the curtain.|Once {he} said hello, but so quietly that nobody heard.] [So the days went by.|{He} felt {feeling}.|Outside, {sky}.]",
    helper:
      '[Then {aK} moved into the house across the street.|One day {aK} got lost and asked for the way.|One afternoon {aK} dropped a {thing} in front of the door.] ["Excuse me, is this yours?" {said} {h}.|"Would you like some tea?" {said} {h}.|"I like your {thing}," {said} {h}.]',
    turn: "[They talked about the weather, then about everything.|It turned out that both loved to {skill}.|Both laughed at the same moment.] [From then on they met every day.|{K} came again the next day, and the day after.|Soon one could not think of one without the other.]",
    ending:
      "[And when it rained, they shared one umbrella.|Every Sunday they had {comfort}.|{H} was never lonely again.]",
    moral: "[a friend may be nearer than one thinks|one small word can open a door|nobody has to stay alone]",
  },
  {
    about: "a wish and a {thing}",
    isHelperHelped: true,
    slot: "thing",
    want: '[{H} found an old {thing} {spot}.|{Spot} {h} found a {thing}.|A stranger gave {h} a {thing} and went away.] [It glowed in the dark.|"One wish," was written on it.|It hummed when {he} touched it.]',
    obstacle:
      "[{He} could wish for gold, or for a castle.|{He} thought for three days and could not decide.|Everybody had advice, and everybody wanted something else.] [{He} grew {feeling} and slept badly.|It was not as easy as {he} had thought.|Outside, {sky}.]",
    helper:
      '[Then {he} met {aK}, who had lost everything in a fire.|Next door lived {aK}, who had been ill for a long time.|On the road {aK} sat and wept.] ["I only want to go home," {said} {k}.|"I have nobody left," {said} {k}.|"If only the winter were over," {said} {k}.]',
    turn: '[Now {h} knew what to do.|{H} did not think any longer.|{H} held the {thing} up high.] ["I wish that {k} is happy again," {he} said.|{He} gave the wish away.|"Help {k}!" {he} said, and the {thing} grew warm.]',
    ending:
      "[The {thing} never shone again, but {h} did not miss it.|{K} laughed for the first time in months, and they had {comfort}.|Since then {k} brings {h} {present} every year.]",
    moral:
      "[kindness always finds its way back|the best gift is the one you give away|happiness grows when it is shared]",
  },
  {
    about: "a {thing} that two wanted",
    slot: "thing",
    want: "[{H} and {aK} saw a {thing} at the same time.|At the market there was a single {thing}, and both {h} and {aK} wanted it.|A {thing} lay {spot}, and two reached for it: {h} and {aK}.]",
    obstacle:
      '["It is mine!" cried {h}. "No, mine!" cried {k}.|They pulled and pushed until it nearly broke.|They stopped talking to each other.] [For a week nobody laughed in the street.|Both were {feeling}.|Even the birds were silent.]',
    helper:
      '[Then {aHelper} said, "Why not take turns?"|{aHelper} had an idea.|They went to {aHelper}, who was known to be fair.] ["Who gives it away shall have it," {said} {helper}.|"A {thing} for one is dull," {said} {helper}.|"On even days one of you, on odd days the other," {said} {helper}.]',
    turn: '[{H} blushed and pushed the {thing} across the table.|"You take it," said {h} {speed}.|Both began to laugh.] ["Let us share it," said {k}.|And so they shared it.|From then on it belonged to both of them.]',
    ending:
      "[With two it was twice the fun.|They celebrated with {comfort}.|Today nobody remembers why they quarrelled.]",
    moral: "[shared joy is double joy|a friend is worth more than a treasure|who gives in is often the wiser one]",
  },
  {
    about: "a long winter",
    isHelperHelped: true,
    slot: "",
    want: "[The winter was long, and the stores of {h} were nearly empty.|Snow fell for forty days, and {h} had nothing left to eat but {ingredient}.|In all the valley only {h} still had food: a little {ingredient}.]",
    obstacle:
      '[The door was frozen shut and the wind howled.|Outside, everything was white and silent.|{He} counted the days and was {feeling}.] ["Will spring never come?" {he} sighed.|Then somebody knocked.|One night the fire nearly went out.]',
    helper:
      '[It was {aK}, cold and hungry.|In the snow stood {aK}.|{aK} asked for a place by the fire.] ["I have no food, but I can {skill}," {said} {k}.|"I carry nothing but {present}," {said} {k}.|"Only until morning," {said} {k}.]',
    turn: "[{H} shared the last meal without thinking.|They made a soup of what there was.|{H} moved aside and made room.] [The evenings were shorter now, for {k} knew a hundred stories.|To pass the time, {k} taught {him} to {skill}.|They kept each other warm until the ice broke.]",
    ending:
      "[When the first flowers came, they planted a garden together.|In spring {k} came back with {present}.|Every year, on the first day of snow, they have {comfort}.]",
    moral: "[the smallest meal is enough for two|warmth comes from company|whoever opens the door lets in the spring]",
  },
  {
    about: "a {thing} in the attic",
    slot: "thing",
    want: "[While cleaning the attic, {h} found a {thing}.|In a box under the roof lay a {thing}, and {h} wanted to know whose it was.|{H} inherited a {thing} and a riddle.]",
    obstacle:
      "[A name was scratched into it, but it could hardly be read.|Nobody in the family knew it.|{He} turned it over and over.] [The older people only shook their heads.|The trail led through {danger}.|{He} was {feeling}, but {he} did not give up.]",
    helper:
      '[Then {aK} looked at it for a long time.|At last {h} showed it to {aK}.|By chance {aK} came to visit.] ["This was mine when I was young," {said} {k}.|"I know this mark," {said} {k}.|"My sister had one like it," {said} {k}.]',
    turn: "[And then {k} told a story that lasted all evening.|They followed the trail together, {speed}.|Piece by piece they put the story together.] [It was a present from a friend who had gone to sea.|Long ago, two friends had parted, and each had kept a half of it.|It had been lost in a flood sixty years before.]",
    ending:
      "[{H} gave it back and got {present}.|The {thing} now stands on the shelf between them.|They had {comfort} and spoke of old times.]",
    moral: "[every old thing has a story|old people are full of stories|listening is half of wisdom]",
  },
];
