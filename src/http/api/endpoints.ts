import { accountEndpoints } from './accounts.ts';
import { alertEndpoints } from './alerts.ts';
import { auditEndpoints } from './audit.ts';
import type { Endpoint } from './endpoint.ts';
import { invitationEndpoints } from './invitations.ts';
import { keyEndpoints } from './keys.ts';
import { meEndpoints } from './me.ts';
import { modelEndpoints } from './models.ts';
import { userEndpoints } from './users.ts';
import { requestEndpoints } from './requests.ts';
import { serviceEndpoints } from './service.ts';
import { sessionEndpoints } from './session.ts';
import { usageEndpoints } from './usage.ts';

/** All endpoints of the management API, in the order of the OpenAPI document. */
export const API_ENDPOINTS: readonly Endpoint[] = [
  ...accountEndpoints,
  ...keyEndpoints,
  ...usageEndpoints,
  ...requestEndpoints,
  ...userEndpoints,
  ...invitationEndpoints,
  ...sessionEndpoints,
  ...meEndpoints,
  ...auditEndpoints,
  ...serviceEndpoints,
  ...modelEndpoints,
  ...alertEndpoints,
];

/** The path of each endpoint of the management API, with parameters in braces, and the methods of that path. */
export const API_PATHS: readonly (readonly [path: string, methods: readonly string[]])[] = [
  ...Map.groupBy(API_ENDPOINTS, ({ path }) => path),
].map(([path, endpoints]) => [
  path,
  endpoints.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
]);
