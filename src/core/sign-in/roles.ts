/** Roles of the people who operate a server. */

/** Each role includes the rights of the roles before it. */
export const ROLES = ["viewer", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** An operator's name and role. */
export interface Who {
  readonly name: string;
  readonly role: Role;
}

/** The administrator key's name in the audit and in the app. */
export const ADMIN_NAME = "admin-key";
