/** Roles of the people who run a server. */

/** Each may do what the ones before it may. */
export const ROLES = ["viewer", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** An operator's name and role. */
export interface Who {
  readonly name: string;
  readonly role: Role;
}

/** Name of whoever has the administrator's key, in the audit and in the app. */
export const ADMIN_NAME = "admin-key";
