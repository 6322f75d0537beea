/** The mock server in a separate process that ends with its parent. */
import { MockServer, type MockTimings } from "./mock-server.js";

const timings = JSON.parse(process.argv[2]!) as MockTimings;
const port = await new MockServer(timings).listen();
const stayAwake = () => setImmediate(stayAwake);
if (timings.isAwake === true) stayAwake();
process.on("disconnect", () => process.exit(0));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => {});
process.send?.(port);
