/** The examples of the documentation, the second of three parts. */
import { testExamples } from "../../helpers/page-examples.js";

testExamples(1, 3);
