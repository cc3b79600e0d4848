import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { SocketDirectoryError, socketDirectory } from '../../src/serving/socket-directory.ts';
import { temporaryFolder } from '../harness.ts';

test('sockets are in the data directory, or in the temporary directory if its path has too many bytes', async () => {
  await using folder = await temporaryFolder();
  assert.equal(await socketDirectory(folder.path), join(folder.path, 'run'));
  for (const letter of ['x', '水']) {
    const directory = await socketDirectory(join(folder.path, letter.repeat(40)));
    const server = createServer().listen(join(directory, `${process.pid}-`.padEnd(31, 'x')));
    await once(server, 'listening');
    server.close();
  }
});

test('a temporary directory whose path is too long is an error with advice', async () => {
  await using folder = await temporaryFolder();
  const long = join(folder.path, '水'.repeat(40));
  await assert.rejects(socketDirectory(long, long), (error) => {
    assert.ok(error instanceof SocketDirectoryError);
    assert.match(error.message, /too long for sockets\. Set SLUICE_HOME or TMPDIR to a shorter path\./);
    return true;
  });
});
