import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../test/support/server-process.ts';
import { startPeer, type Server } from '../../test/support/measured-servers.ts';
import type { Language } from './languages.ts';

/** A proxy under measurement. */
export interface BenchProxy {
  name: string;
  /** False for Sluice and the minimal proxy, whose failures end the benchmark. Failures of a peer are only reported. */
  isPeer: boolean;
  server: Server;
  /** Headers of its requests, in addition to the key. */
  headers: Readonly<Record<string, string>>;
  /** Divides the number of requests, so that a slow proxy does not take hours. */
  requestDivisor: number;
  /** Port for `allocatedBytes`. Absent if the proxy is not a Node process. */
  inspectPort?: number;
  /** The language of its requests, if it is not the chat of the other proxies. */
  language?: Language;
  /** Name of the proxy that its values are compared with, if it is not the minimal proxy. */
  comparedWith?: string;
}

/** Starts a peer for the upstream URL, with its files in `folder`. */
type StartProxy = (program: string, folder: string, upstream: string) => Promise<BenchProxy>;

/** LiteLLM requires a key that does not look weak. */
const LITELLM_KEY = 'sk-bench-6b1f046e75b202c871ac8bd3b362';

/** Other gateways, with their default program names. */
export const PEERS: Readonly<
  Record<'vllm-router' | 'smg' | 'nginx' | 'portkey' | 'litellm', { program: string; start: StartProxy }>
> = {
  'vllm-router': {
    program: 'vllm-router',
    start: (program, _folder, upstream) => startRouter('vllm-router', program, [], [upstream], 'round_robin'),
  },
  smg: {
    program: 'smg',
    start: (program, _folder, upstream) =>
      startRouter('smg', program, ['launch', '--backend', 'openai'], [upstream], 'round_robin'),
  },
  nginx: {
    program: 'nginx',
    async start(program, folder, upstream) {
      const file = join(folder, 'nginx.conf');
      const start = async (port: number) => {
        await writeFile(file, nginxConfig(folder, port, upstream));
        return ['-c', file, '-p', folder];
      };
      return {
        name: 'nginx',
        isPeer: true,
        server: await startPeer(program, start, '/v1/models'),
        headers: {},
        requestDivisor: 1,
      };
    },
  },
  portkey: {
    program: 'gateway',
    async start(program, _folder, upstream) {
      const server = await startPeer(
        process.execPath,
        (port) => [program, `--port=${port}`, '--headless'],
        '/',
      );
      const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${upstream}/v1` };
      const withKey = { ...headers, authorization: 'Bearer none' };
      return { name: 'portkey', isPeer: true, server, headers: withKey, requestDivisor: 4 };
    },
  },
  litellm: {
    program: 'litellm',
    async start(program, folder, upstream) {
      const file = join(folder, 'litellm.yaml');
      const model = `{model: openai/bench/model, api_base: '${upstream}/v1', api_key: none}`;
      const settings = `general_settings: {master_key: ${LITELLM_KEY}}`;
      await writeFile(
        file,
        `model_list: [{model_name: bench/model, litellm_params: ${model}}]\n${settings}\n`,
      );
      const server = await startPeer(
        program,
        (port) => ['--config', file, '--host', '127.0.0.1', '--port', String(port), '--telemetry', 'False'],
        '/health/liveliness',
      );
      const headers = { authorization: `Bearer ${LITELLM_KEY}` };
      return { name: 'litellm', isPeer: true, server, headers, requestDivisor: 40 };
    },
  },
};

/** Starts vllm-router or smg, which have the same options, in front of these workers. */
export async function startRouter(
  name: string,
  program: string,
  command: readonly string[],
  workers: readonly string[],
  policy: 'round_robin' | 'cache_aware',
): Promise<BenchProxy> {
  const metricsPort = await freePort();
  const server = await startPeer(
    program,
    (port) =>
      [...command, '--host', '127.0.0.1', '--port', String(port), '--log-level', 'error'].concat(
        ['--worker-urls', ...workers, '--policy', policy],
        ['--prometheus-port', String(metricsPort)],
      ),
    '/readiness',
  );
  return { name, isPeer: true, server, headers: {}, requestDivisor: 1 };
}

/** Returns the path of a program on the PATH, or null. */
export function findProgram(program: string): string | null {
  try {
    return execFileSync('which', [program], { encoding: 'utf8' }).trim();
  } catch {
    return null;
  }
}

function nginxConfig(folder: string, port: number, upstream: string): string {
  return `
    daemon off; worker_processes 1; pid ${folder}/pid; error_log /dev/null;
    events { worker_connections 20000; }
    http {
      access_log ${folder}/access.log;
      client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
      fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
      upstream scripted { server ${new URL(upstream).host}; keepalive 256; }
      server {
        listen 127.0.0.1:${port} backlog=4096;
        location / {
          proxy_pass http://scripted; proxy_http_version 1.1; proxy_set_header Connection "";
          proxy_buffering off; proxy_read_timeout 600s;
        }
      }
    }`;
}
