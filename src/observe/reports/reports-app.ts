/** The list of reports and the pages of single reports, for a server and a gateway. */
import { type Context, Hono } from "hono";
import { MillraceError } from "../../core/errors.js";
import { ReportFolder } from "./report-folder.js";

/**
 * @param folder undefined: the operator keeps no reports
 * @param checkReader throws if the caller may not read the list
 * @param remedy the way to get a folder
 */
export function createReportsApp(folder: string | undefined, checkReader: (c: Context) => void, remedy: string): Hono {
  const reports = folder === undefined ? undefined : new ReportFolder(folder);
  const kept = (): ReportFolder => {
    if (reports !== undefined) return reports;
    throw new MillraceError("not_found", "expected a folder of reports, got none", { hint: remedy });
  };
  const app = new Hono();
  app.get("/", async (c) => {
    checkReader(c);
    return await kept().list();
  });
  // A link from the list proves that its reader may open it.
  app.get("/:id/page", async (c) => {
    const { until = "", proof = "" } = c.req.query();
    return await kept().page(c.req.param("id"), until, proof);
  });
  return app;
}
