import type { z } from 'zod';
import type { AccountRow } from '../../accounts/accounts.ts';
import type { AuditRow } from '../../accounts/audit.ts';
import { keyStatus, readAccess, readTags, type KeyRow } from '../../accounts/key-table.ts';
import { readLimits } from '../../accounts/plans.ts';
import type { Page } from '../../accounts/page.ts';
import type { MemberRow, UserRow } from '../../accounts/users.ts';
import type { InvitationRow } from '../../identity/invitations.ts';
import type { SessionRow } from '../../identity/sessions.ts';
import type { account } from './contract/accounts.ts';
import type { auditEntry } from './contract/audit.ts';
import type { invitation } from './contract/invitations.ts';
import type { key } from './contract/keys.ts';
import type { session } from './contract/me.ts';
import type { member, user } from './contract/users.ts';
import { limitsJson } from './limits-json.ts';

// Each field is named: a spread row could contain the hash of a key or a token.

export function accountJson(row: AccountRow): z.input<typeof account> {
  const limits = readLimits(row.limits);
  return {
    id: row.id,
    name: row.name,
    plan: row.plan,
    limits: limits ? limitsJson(limits) : null,
    limits_damaged: limits === undefined,
    status: row.status,
    created_at: iso(row.created_at),
  };
}

export function keyJson(row: KeyRow): z.input<typeof key> {
  const { limits, models } = readAccess(row) ?? { limits: null, models: null };
  return {
    id: row.id,
    account_id: row.account_id,
    kind: row.kind,
    purpose: row.purpose,
    name: row.name,
    prefix: row.prefix,
    last_four: row.last_four,
    status: keyStatus(row, Date.now()),
    allowed_models: models && [...models],
    limits: limits && limitsJson(limits),
    strict: row.strict === 1,
    tags: readTags(row.tags),
    created_at: iso(row.created_at),
    expires_at: iso(row.expires_at),
    revoked_at: iso(row.revoked_at),
    last_used_at: iso(row.last_used_at),
    last_used_ip: row.last_used_ip,
    last_used_client: row.last_used_client,
    previous: previousJson(row),
  };
}

function previousJson(row: KeyRow): z.input<typeof key>['previous'] {
  const { previous_last_four: lastFour, previous_expires_at: expiresAt, previous_used_at: usedAt } = row;
  const now = Date.now();
  if (lastFour === null || expiresAt === null || expiresAt <= now || keyStatus(row, now) !== 'live')
    return null;
  return { last_four: lastFour, expires_at: iso(expiresAt), last_used_at: iso(usedAt) };
}

export function userJson(row: UserRow): z.input<typeof user> {
  return {
    id: row.id,
    name: row.name,
    email: row.email,
    email_verified: row.email_verified === 1,
    operator: row.operator === 1,
    two_factor: row.two_factor === 1,
    created_at: iso(row.created_at),
  };
}

export function memberJson(row: MemberRow): z.input<typeof member> {
  return { account_id: row.account_id, user: userJson(row), role: row.role, created_at: iso(row.since) };
}

export function invitationJson(row: InvitationRow): z.input<typeof invitation> {
  return {
    id: row.id,
    account_id: row.account_id,
    email: row.email,
    role: row.role,
    invited_by: row.invited_by,
    created_at: iso(row.created_at),
    expires_at: iso(row.expires_at),
  };
}

export function sessionJson(row: SessionRow, currentId: string): z.input<typeof session> {
  return {
    id: row.id,
    created_at: iso(row.created_at),
    last_active_at: iso(row.last_active_at),
    expires_at: iso(row.expires_at),
    ip: row.ip,
    user_agent: row.user_agent,
    current: row.id === currentId,
  };
}

export function auditJson(row: AuditRow): Omit<z.input<typeof auditEntry>, `${string}_name`> {
  return {
    id: row.id,
    at: iso(row.at),
    actor: row.actor,
    ip: row.ip,
    action: row.action,
    subject: row.subject,
    account_id: row.account_id,
    detail: JSON.parse(row.detail) as Record<string, unknown>, // `appendAudit` writes objects.
  };
}

export function pageJson<T, E>(
  page: Page<T>,
  toJson: (item: T) => E,
): { data: E[]; next_cursor: string | null } {
  return { data: page.items.map(toJson), next_cursor: page.nextCursor };
}

/** Formats Unix milliseconds as ISO 8601 in UTC; null stays null. */
export function iso(unixMs: number): string;
export function iso(unixMs: number | null): string | null;
export function iso(unixMs: number | null): string | null {
  return unixMs === null ? null : new Date(unixMs).toISOString();
}
