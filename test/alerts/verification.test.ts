import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { Channels } from '../../src/alerts/channels.ts';
import { alertsSchema } from '../../src/config/alerts.ts';
import { Secret } from '../../src/support/secret.ts';
import { snippetsOf } from '../docs/markdown.ts';
import { collectOutput, until } from '../harness.ts';
import { SECRET } from './fixture.ts';

/** Programs that run a snippet. */
const PROGRAMS: Readonly<Record<string, readonly [program: string, ...args: string[]]>> = {
  js: [process.execPath, '--input-type=module', '--eval'],
  python: ['python3', '-c'],
};

for (const { name, language, code } of snippetsOf('docs/alerts.md')) {
  const [program = '', ...args] = PROGRAMS[language] ?? [];
  const skip = spawnSync(program, ['--version']).status !== 0 && `no ${program}`;
  test(
    `the receiver ${name} accepts webhooks, and refuses those with another secret or an old time`,
    { skip },
    async (t) => {
      const port = await freePort();
      const child = spawn(program, [...args, code], {
        env: { PATH: process.env['PATH'], PAGER_WEBHOOK_SECRET: SECRET, PORT: String(port) },
      });
      t.after(() => child.kill());
      const output = collectOutput(child);
      const url = `http://127.0.0.1:${port}/`;
      const send = async (secret: string) => {
        await using channels = new Channels({
          settings: alertsSchema.parse({ webhooks: [{ name: 'pager', url, secretEnv: 'S' }] }),
          secrets: new Map([['S', new Secret(secret)]]),
          mailer: null,
          publicUrl: () => 'http://127.0.0.1:8080',
          env: {},
        });
        await channels.of('webhook:pager')?.send({ id: 'x', event: 'test', alert: null });
      };
      await until(async () => (await fetch(url, { method: 'POST', body: '{}' }).catch(() => null)) !== null);
      await send(SECRET);
      await until(() => output.stdout.includes('alert.test: Test of the alerts'));
      await assert.rejects(send(`whsec_${'A'.repeat(44)}`), /status 401/);
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() - 600_000 });
      await assert.rejects(send(SECRET), /status 401/);
    },
  );
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
