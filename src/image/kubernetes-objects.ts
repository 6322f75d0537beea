/** The common parts of a deployment's objects: names, labels, security settings and environment. */
import { ENVIRONMENT, USER_ID } from "./machine.js";

export const NAMESPACE = "millrace";

export interface Named {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

export type KubernetesObject = Readonly<Record<string, unknown>> & { readonly kind: string };

export function meta({ name, labels }: Named): object {
  return { name, namespace: NAMESPACE, labels };
}

export function namedOf(slug: string): Named {
  const name = `millrace-${slug}`;
  return { name, labels: { "app.kubernetes.io/name": "millrace", "app.kubernetes.io/instance": name } };
}

export const CONTAINER_SECURITY = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

export const POD_SECURITY = {
  runAsNonRoot: true,
  runAsUser: USER_ID,
  runAsGroup: USER_ID,
  fsGroup: USER_ID,
  // By default, Kubernetes would change the owner of every model file at each start.
  fsGroupChangePolicy: "OnRootMismatch",
  seccompProfile: { type: "RuntimeDefault" },
};

/** An environment variable from the secret. */
export const secretVariable = (named: Named, variable: string, optional = false) => ({
  name: variable,
  valueFrom: { secretKeyRef: { name: named.name, key: variable, ...(optional ? { optional } : {}) } },
});

export const plainVariables = Object.entries(ENVIRONMENT).map(([name, value]) => ({ name, value }));
