import assert from 'node:assert/strict';
import { join, sep } from 'node:path';
import { describe, it } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { Layout, siblingSource, splitFiles } from '../../src/models/layout.ts';
import { describeSource, parseSource, SourceError } from '../../src/models/source.ts';

const word = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,20}$/);
const file = fc
  .array(word, { maxLength: 2 })
  .chain((folders) => word.map((name) => [...folders, `${name}.gguf`].join('/')));
const hub = fc.record({ owner: word, name: word, file, revision: fc.option(word, { nil: null }) });

describe('a model source', () => {
  it('of the Hub is parsed, and described in the same form', () => {
    fc.assert(
      fc.property(hub, ({ owner, name, file, revision }) => {
        const text = `hf:${owner}/${name}/${file}${revision === null ? '' : `@${revision}`}`;
        const source = parseSource(text);
        assert.deepEqual(source, {
          kind: 'hub',
          repository: `${owner}/${name}`,
          file,
          revision: revision ?? 'main',
        });
        assert.deepEqual(parseSource(describeSource(source)), source);
      }),
    );
  });

  it('always has a unique path in the models folder', () => {
    const layout = new Layout(join(sep, 'home'));
    const url = fc
      .array(fc.webPath(), { maxLength: 1 })
      .map((path) => `https://host:444${path.join('')}/x.gguf`);
    const text = fc.oneof(
      hub.map(({ owner, name, file, revision }) => `hf:${owner}/${name}/${file}@${revision ?? 'main'}`),
      url,
    );
    const locate = (text: string): { path: string; source: string } | null => {
      try {
        const source = parseSource(text);
        return { path: layout.files(source)[0] ?? '', source: describeSource(source) };
      } catch (error) {
        assert(error instanceof SourceError);
        return null;
      }
    };
    fc.assert(
      fc.property(text, text, (one, two) => {
        const [a, b] = [locate(one), locate(two)];
        if (a !== null)
          assert(a.path.startsWith(layout.folder + sep) && !a.path.split(sep).includes('..'), a.path);
        if (a !== null && b !== null) assert.equal(a.path === b.path, a.source === b.source);
      }),
    );
  });

  it('that is invalid always causes an error that says which form is expected', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.string().map((text) => `hf:${text}`),
          fc.string().map((text) => `https://${text}`),
        ),
        (text) => {
          try {
            parseSource(text);
          } catch (error) {
            assert(error instanceof SourceError, String(error));
            assert.match(error.message, /expected/);
          }
        },
      ),
    );
  });

  const refused: readonly [string, RegExp][] = [
    ['hf:owner', /hf:owner\/repo\/file\.gguf/],
    ['hf:owner/repo', /a file path/],
    ['hf:owner/repo/model.safetensors', /ends in \.gguf/],
    ['hf:owner/../x.gguf', /hf:owner\/repo/],
    ['hf:owner/repo/../../x.gguf', /a file path/],
    ['hf:owner/repo/x.gguf@', /after "@"/],
    ['hf:owner/repo/x.gguf@a/../b', /after "@"/],
    ['http://example.com/x.gguf', /https:\/\//],
    ['https://user:pass@example.com/x.gguf', /without a user/],
    ['https://example.com/x.zip', /\.gguf/],
    ['ftp://example.com/x.gguf', /hf:owner/],
    ['pip:some-package==1.0', /hf:owner/],
    ['Qwen/Qwen3', /hf:owner/],
    ['', /hf:owner/],
  ];
  for (const [text, expected] of refused) {
    it(`"${text}" is refused`, () => {
      assert.throws(
        () => parseSource(text),
        (error: unknown) => {
          assert(error instanceof SourceError);
          assert.match(error.message, expected);
          return true;
        },
      );
    });
  }

  it('is displayed without password and query', () => {
    assert.equal(describeSource(parseSource('https://h/x.gguf?signature=sesame#part')), 'https://h/x.gguf');
    assert.throws(
      () => parseSource('https://user:sesame@h/x.gguf'),
      (error: Error) => !error.message.includes('sesame'),
    );
  });

  it('may be plain HTTP on this machine, or a path relative to a folder', () => {
    for (const host of ['localhost:1', '127.0.0.1:1', '[::1]:1']) {
      assert.equal(parseSource(`http://${host}/x.gguf`).kind, 'url');
    }
    assert.deepEqual(parseSource('models/x.gguf', join(sep, 'etc')), {
      kind: 'path',
      path: join(sep, 'etc', 'models', 'x.gguf'),
    });
    assert.deepEqual(parseSource('./odd-name', join(sep, 'etc')), {
      kind: 'path',
      path: join(sep, 'etc', 'odd-name'),
    });
  });
});

describe('a split model', () => {
  it('has the same files whichever one is named', () => {
    const all = ['m-00001-of-00003.gguf', 'm-00002-of-00003.gguf', 'm-00003-of-00003.gguf'];
    for (const name of all) assert.deepEqual(splitFiles(name), all);
    assert.deepEqual(splitFiles('m-00004-of-00003.gguf'), ['m-00004-of-00003.gguf']);
    assert.deepEqual(splitFiles('m.gguf'), ['m.gguf']);
    assert.equal(
      describeSource(siblingSource(parseSource('hf:o/r/q8/m-00001-of-00003.gguf'), 'm-00002-of-00003.gguf')),
      'hf:o/r/q8/m-00002-of-00003.gguf',
    );
  });
});
