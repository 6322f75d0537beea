/** Finds ports for processes that cannot choose one themselves: free now, and not reserved for another instance. */
import { createServer, type Server } from "node:net";

const promised = new Set<number>();

export interface ReservedPorts {
  readonly ports: readonly number[];
  /** Call it when the process is gone. */
  release(): void;
}

/** Reserves ports until `release`, since an engine may bind its port minutes after the choice. */
export async function reservePorts(host: string, count: number): Promise<ReservedPorts> {
  const servers: Server[] = [];
  const ports: number[] = [];
  try {
    while (ports.length < count) {
      const server = createServer();
      servers.push(server);
      const port = await listen(server, host);
      if (promised.has(port)) continue;
      promised.add(port);
      ports.push(port);
    }
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
  return {
    ports,
    release() {
      for (const port of ports) promised.delete(port);
    },
  };
}

function listen(server: Server, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}
