/** The examples of the documentation, the third of three parts. */
import { testExamples } from "../../helpers/page-examples.js";

testExamples(2, 3);
