import { Secret } from '../secret.ts';
import type { DownloadJob } from './download.ts';
import type { Credentials, HttpClient } from './http-client.ts';
import { PullError } from './pull-error.ts';
import { isLoopback, type HubSource } from './source.ts';

const DEFAULT_ENDPOINT = 'https://huggingface.co';

/**
 * Builds the URL of a file on the Hub and requests its size and SHA-256. Models are always in large file storage (LFS);
 * for other files, the SHA-256 is null. Uses `HF_ENDPOINT`, and `HF_TOKEN`, which is only sent to the endpoint.
 * @throws PullError `source_failed`
 */
export async function findHubFile(
  source: HubSource,
  env: NodeJS.ProcessEnv,
  client: HttpClient,
  signal: AbortSignal,
): Promise<DownloadJob> {
  const endpoint = hubEndpoint(env);
  const path = [
    source.repository,
    'resolve',
    encodeURIComponent(source.revision),
    ...source.file.split('/').map(encodeURIComponent),
  ];
  const url = new URL(`${endpoint.pathname.replace(/\/+$/, '')}/${path.join('/')}`, endpoint);
  const credentials = hubCredentials(endpoint, env);

  const response = await client.head(url, credentials, signal);
  if (response.status >= 400)
    throw new PullError('source_failed', refusalMessage(response.status, url.host, credentials));
  const linkedEtag = unquoted(response.headers['x-linked-etag']);
  const size = Number(response.headers['x-linked-size'] ?? Number.NaN);
  return {
    url,
    credentials,
    sha256: /^[0-9a-f]{64}$/.test(linkedEtag) ? linkedEtag : null,
    sizeBytes: Number.isSafeInteger(size) && size >= 0 ? size : null,
  };
}

function hubEndpoint(env: NodeJS.ProcessEnv): URL {
  const text = env['HF_ENDPOINT'] ?? '';
  if (text === '') return new URL(DEFAULT_ENDPOINT);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (
    url === null ||
    !(url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)))
  ) {
    throw new PullError(
      'source_failed',
      '`HF_ENDPOINT` must be an https:// URL, such as https://huggingface.co',
    );
  }
  return url;
}

function hubCredentials(endpoint: URL, env: NodeJS.ProcessEnv): Credentials | null {
  const token = env['HF_TOKEN'] ?? '';
  return token === '' ? null : { token: new Secret(token), origin: endpoint.origin };
}

function refusalMessage(status: number, host: string, credentials: Credentials | null): string {
  if (status === 404) return `${host} has no such repository, revision or file (404)`;
  if (status !== 401 && status !== 403) return `${host} responded with status ${status}`;
  const advice =
    credentials === null
      ? 'set `HF_TOKEN` to a token that has access'
      : 'the token in `HF_TOKEN` has no access; for a gated model, accept its terms on the Hub first';
  return `${host} refused access (${status}): the repository does not exist, or is private or gated; ${advice}`;
}

function unquoted(etag: string | undefined): string {
  return (etag ?? '').replace(/^W\//, '').replaceAll('"', '').toLowerCase();
}
