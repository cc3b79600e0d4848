import { execFileSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startPeer, type Server } from '../servers.ts';

/** A proxy under measurement. */
export interface Arm {
  name: string;
  server: Server;
  /** What its requests need beside the key. */
  headers: Readonly<Record<string, string>>;
  /** It is given one request in so many, so that a slow one does not make the run last for hours. */
  oneIn: number;
}

/** Another gateway, before the upstream at this address. `folder` is for its files. */
type StartArm = (program: string, folder: string, upstream: string) => Promise<Arm>;

/** It starts only with a key, and one that does not look weak. */
const LITELLM_KEY = 'sk-bench-6b1f046e75b202c871ac8bd3b362';

/** The further arms: what each is started with, where no flag says otherwise, and how. */
export const PEERS: Readonly<Record<'nginx' | 'portkey' | 'litellm', { program: string; start: StartArm }>> =
  {
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
          server: await startPeer(program, start, '/v1/models'),
          headers: {},
          oneIn: 1,
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
        return { name: 'portkey', server, headers: { ...headers, authorization: 'Bearer none' }, oneIn: 4 };
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
        return { name: 'litellm', server, headers: { authorization: `Bearer ${LITELLM_KEY}` }, oneIn: 40 };
      },
    },
  };

/** Path of a program, or null where there is none of that name. */
export function locate(program: string): string | null {
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
