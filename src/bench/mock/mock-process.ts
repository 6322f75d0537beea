/** The mock server as a process of its own; it ends with its parent. */
import { MockServer, type MockTimings } from "./mock-server.js";

const port = await new MockServer(JSON.parse(process.argv[2]!) as MockTimings).listen();
process.on("disconnect", () => process.exit(0));
process.on("SIGINT", () => {});
process.send?.(port);
