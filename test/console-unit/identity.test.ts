/** Tests without a browser: paths to return to after sign-in, and device names. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceOf } from '../../console/src/pages/settings/device.ts';
import { returnPath } from '../../console/src/pages/sign-in/return-path.ts';

test('sign-in returns to a console path, including its query', () => {
  for (const path of ['/', '/keys', '/usage?account=acc_1&by=model', '/requests/0199?state=open']) {
    assert.equal(returnPath(path), path);
  }
});

test('sign-in does not return to other sites', () => {
  const elsewhere = [
    null,
    '',
    'keys',
    'https://evil.example',
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    '/\t/evil.example',
    '/\n/evil.example',
    '/.//evil.example',
    '/keys/..//evil.example',
    'javascript:alert(1)',
  ];
  for (const wanted of elsewhere) assert.equal(returnPath(wanted), '/', String(wanted));
});

test('a session is named after its browser and system', () => {
  const labelOf = (userAgent: string | null) => deviceOf(userAgent).label;
  const webKit = 'AppleWebKit/537.36 (KHTML, like Gecko)';
  assert.equal(
    labelOf('Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'),
    'Firefox on Linux',
  );
  assert.equal(
    labelOf(
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webKit} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0`,
    ),
    'Edge on Windows',
  );
  assert.equal(
    labelOf(`Mozilla/5.0 (Linux; Android 10; K) ${webKit} Chrome/140.0.0.0 Mobile Safari/537.36`),
    'Chrome on Android',
  );
  assert.equal(
    labelOf(
      'Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1',
    ),
    'Safari on iPhone',
  );
  assert.equal(labelOf('curl/8.5.0'), 'curl');
  assert.equal(labelOf(null), 'Unknown device');
});
