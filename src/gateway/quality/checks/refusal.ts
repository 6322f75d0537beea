/** The answer begins by declining. Openings of seven languages are known; a refusal in other words is not seen. */
import { isRefusal } from "../../cascade/features.js";
import { type Check, yesOrNo } from "./check.js";

/** English is known to `isRefusal`. */
const OPENINGS = [
  "es tut mir leid|leider kann ich|das kann ich (?:leider )?nicht|ich kann (?:dir|ihnen|das|dabei|diese)[^.!?\\n]{0,40} nicht|ich darf",
  "(?:je suis )?désolée?|je ne (?:peux|suis) pas|malheureusement|je regrette",
  "lo siento|no puedo|lamentablemente|lamento",
  "mi dispiace|non posso|purtroppo|sono spiacente",
  "(?:sinto muito|desculpe|lamento)|não posso|infelizmente",
  "het spijt me|sorry|ik kan (?:je|u|dat|dit|hier)[^.!?\\n]{0,40} niet|helaas",
  "(?:i apologi[sz]e|my apologies|i regret)[^.!?\\n]{0,80}(?:can(?:no|['’])t|cannot|unable|not able)|i must decline|i do not feel comfortable",
];
const OPENING = new RegExp(`^[^\\p{L}]{0,8}(?:${OPENINGS.join("|")})(?![\\p{L}])`, "iu");

export const refusal: Check = ({ answer: { text, end } }) => {
  if (end === "refusal") return yesOrNo(true, "withheld by the model or its provider");
  const start = text.slice(0, 400);
  return yesOrNo(isRefusal(start) || OPENING.test(start), "begins by declining");
};
