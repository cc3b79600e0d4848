import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { scriptedYaml, temporaryFolder } from '../harness.ts';

const ROOT = join(import.meta.dirname, '..', '..');

// npm passes the signal on to the shell that runs the script, and shells pass none on.
test('SIGTERM to npm start ends the service, as a container or a process manager sends it', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'sluice.yaml');
  await writeFile(file, scriptedYaml());
  const env = {
    ...process.env,
    SLUICE_CONFIG: file,
    SLUICE_HOME: join(folder.path, 'home'),
    SLUICE_PORT: '0',
  };
  const npm = spawn('npm', ['start'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  try {
    let said = '';
    for await (const text of npm.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      said += String(text);
      if (said.includes('No operator exists yet')) break;
    }
    let log = '';
    npm.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
    npm.stdout.resume();
    npm.kill('SIGTERM');
    // Both pipes are the service's too: they close when it is gone.
    await once(npm, 'close');
    assert.match(log, /"message":"stopping"/);
  } finally {
    endGroup(npm.pid);
  }
});

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}
