import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { anchorsOf, linksOf, PAGES, readPage, ROOT } from './markdown.ts';

test('every link within the repository has an existing target', () => {
  const broken: string[] = [];
  let followed = 0;
  for (const page of PAGES) {
    for (const link of linksOf(readPage(page))) {
      if (/^[a-z][a-z0-9+.-]*:/.test(link)) continue;
      followed++;
      const [path = '', anchor] = link.split('#', 2);
      const target = path === '' ? page : normalize(join(dirname(page), path));
      if (!existsSync(join(ROOT, target))) broken.push(`${page}: ${link}`);
      else if (anchor !== undefined && !anchorsOf(readPage(target)).has(anchor))
        broken.push(`${page}: ${link}`);
    }
  }
  assert.deepEqual(broken, []);
  assert.ok(followed > 0);
});

test('every document can be reached from the README', () => {
  const reached = new Set<string>();
  const open = ['README.md'];
  for (let page = open.pop(); page !== undefined; page = open.pop()) {
    if (reached.has(page)) continue;
    reached.add(page);
    for (const link of linksOf(readPage(page))) {
      const target = normalize(join(dirname(page), link.split('#', 1)[0] ?? ''));
      if (PAGES.includes(target)) open.push(target);
    }
  }
  assert.deepEqual(
    PAGES.filter((page) => !reached.has(page)),
    [],
  );
});

test('every picture is in a document, in true color and at twice the density of a 1440-pixel screen', () => {
  const pictures = readdirSync(join(ROOT, 'docs', 'images'));
  assert.ok(pictures.length > 0);
  for (const name of pictures) {
    assert.ok(
      PAGES.some((page) => readPage(page).includes(`images/${name}`)),
      name,
    );
    // The header of a PNG file: 2 is the color type RGB, 6 is RGB with transparency.
    const png = readFileSync(join(ROOT, 'docs', 'images', name));
    assert.equal(png.readUInt32BE(16), 2880, name);
    assert.ok([2, 6].includes(png.readUInt8(25)), name);
  }
});

test('links and headings are parsed as on GitHub', () => {
  assert.deepEqual([...anchorsOf('# A `b`: c?\n## A `b`: c?\n```\n# no\n```\n')], ['a-b-c', 'a-b-c-1']);
  assert.deepEqual(linksOf('[a](b.md#c) `[d](e)`\n```\n[f](g)\n```\n'), ['b.md#c']);
});
