import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type ChatRequest, imagesOf } from '../../src/core/generation.ts';
import { Notes } from '../../src/core/notes.ts';
import { formatChat } from '../../src/replicas/wire/replica-request.ts';
import { admitImages } from '../../src/protocols/images.ts';
import { read as readMessages } from '../protocols/anthropic/samples.ts';
import { chat, refuses } from '../protocols/openai/samples.ts';
import { read as readResponses } from '../protocols/responses/samples.ts';
import { dataUri, gif, jpeg, PIXEL, png, webp } from './samples.ts';

/** How each language writes an image of a user, and a request with these parts as its user message. */
interface Language {
  text: (text: string) => object;
  image: (url: string) => object;
  /** Path of the image within its part. */
  field: string;
  /** Returns the request, or throws its refusal. Notes are errors. */
  read: (parts: readonly object[]) => ChatRequest;
  path: string;
}

const [, DATA = ''] = PIXEL.split(',');

const LANGUAGES: Record<string, Language> = {
  'chat completions': {
    text: (text) => ({ type: 'text', text }),
    image: (url) => ({ type: 'image_url', image_url: { url } }),
    field: 'image_url.url',
    path: 'messages[0].content',
    read: (content) => chat({ messages: [{ role: 'user', content }] }).request,
  },
  responses: {
    text: (text) => ({ type: 'input_text', text }),
    image: (image_url) => ({ type: 'input_image', image_url }),
    field: 'image_url',
    path: 'input[0].content',
    read: (content) => readResponses({ input: [{ role: 'user', content }] }, new Notes(true)).request,
  },
  messages: {
    text: (text) => ({ type: 'text', text }),
    image: (url) => ({ type: 'image', source: { type: 'url', url } }),
    field: 'source.url',
    path: 'messages[0].content',
    read: (content) => readMessages({ messages: [{ role: 'user', content }] }, new Notes(true)).request,
  },
};

/** Returns what a server gets. */
function sent(request: ChatRequest): unknown {
  return formatChat(request, 'vllm')['messages'];
}

const FORMATS: [string, Buffer][] = [
  ['image/png', png(3, 2)],
  ['image/jpeg', jpeg()],
  ['image/jpg', jpeg()],
  // With the metadata of an editor, of 650 KB.
  ['image/jpeg', jpeg(3, 2, 65_533, 10)],
  ['image/gif', gif()],
  ['IMAGE/WebP', webp('VP8L')],
];

for (const [name, { text, image, field, path, read }] of Object.entries(LANGUAGES)) {
  describe(name, () => {
    test('images keep their place between the texts', () => {
      const url = { type: 'image_url', image_url: { url: PIXEL } };
      const parts = [image(PIXEL), text('A '), image(PIXEL), image(PIXEL), text('🙂 B')];
      assert.deepEqual(sent(read(parts)), [
        {
          role: 'user',
          content: [url, { type: 'text', text: 'A ' }, url, url, { type: 'text', text: '🙂 B' }],
        },
      ]);
      assert.deepEqual(sent(read([image(PIXEL)])), [{ role: 'user', content: [url] }]);
    });

    test('each format is accepted, with its size', () => {
      for (const [type, bytes] of FORMATS) {
        const [found] = imagesOf(read([image(dataUri(bytes, type))]));
        const format = type.toLowerCase().replace('image/', '').replace('jpg', 'jpeg');
        assert.deepEqual(found?.file, { format, bytes: bytes.length, width: 3, height: 2 });
      }
    });

    test('a server gets a data URI in the form that all servers read, however it was written', () => {
      const [, data = ''] = dataUri(jpeg()).split(',');
      for (const start of [
        'data:image/jpeg;base64',
        'DATA:Image/JPEG;BASE64',
        'data:image/jpg;base64',
        'data:image/jpeg;charset=utf-8;name=a.jpg;base64',
      ])
        assert.equal(imagesOf(read([image(`${start},${data}`)]))[0]?.url, dataUri(jpeg(), 'image/jpeg'));
    });

    test('a server gets base64 without line breaks, with the format of the bytes', () => {
      const bytes = png(300, 300);
      const lines = bytes.toString('base64').replaceAll(/.{76}/g, '$&\r\n');
      for (const url of [
        `data:image/png;base64,${lines}\n`,
        dataUri(bytes, 'image/jpeg'),
        dataUri(bytes, 'application/octet-stream'),
        `data:;base64, ${lines}\t\f`,
      ]) {
        const [found] = imagesOf(read([image(url)]));
        assert.equal(found?.url, dataUri(bytes));
        assert.equal(found.file?.format, 'png');
      }
    });

    test('the area of an image is limited, not its sides', () => {
      for (const [width, height] of [
        [1280, 9000],
        [8192, 8192],
        [1, 60_000],
      ] as const) {
        const [found] = imagesOf(read([image(dataUri(png(1, 1, [width, height])))]));
        assert.deepEqual([found?.file?.width, found?.file?.height], [width, height]);
      }
      assert.throws(
        () => read([image(dataUri(png(1, 1, [8192, 8193])))]),
        /at most 67108864 pixels; this one has 8192 x 8193/,
      );
    });

    test('a server gets the URL that was checked, which every library reads alike', () => {
      for (const [given, url] of [
        [
          'https://example.com/a%2Fb.png?X-Sig=a%2Bb/c+d&e',
          'https://example.com/a%2Fb.png?X-Sig=a%2Bb/c+d&e',
        ],
        ['https://example.com\\@127.0.0.1/a.png', 'https://example.com/@127.0.0.1/a.png'],
        ['https:example.com', 'https://example.com/'],
        [' https://exam\tple.com#@127.0.0.1\n', 'https://example.com/#@127.0.0.1'],
        ['https://b\u00fccher.example.org/\u00e4', 'https://xn--bcher-kva.example.org/%C3%A4'],
        ['https://example.com.:443/a.png', 'https://example.com./a.png'],
      ] as const) {
        const [found] = imagesOf(read([image(given)]));
        assert.deepEqual([found?.url, found?.digest], [url, url]);
      }
    });

    test('the digest stands for the bytes', () => {
      const digest = (bytes: Buffer) => imagesOf(read([image(dataUri(bytes))]))[0]?.digest;
      assert.equal(digest(png(2, 2)), digest(png(2, 2)));
      assert.notEqual(digest(png(2, 2)), digest(png(2, 2, [2, 2], 5)));
    });

    test('what is no image within the bounds is refused with its path', () => {
      const at = `${path}[1].${field}`;
      const refusal = (url: string, code: Parameters<typeof refuses>[1], message: string) =>
        refuses(() => read([text('x'), image(url)]), code, at, message);
      const invalid = (url: string, message: string) => refusal(url, 'invalid_value', message);
      invalid(dataUri(Buffer.from('<svg/>')), 'must be a PNG, JPEG, GIF or WebP image; these bytes are none');
      invalid(dataUri(png(1, 1, [0, 1])), 'these bytes are none');
      invalid(dataUri(png(1, 1, [60_000, 60_000])), 'this one has 60000 x 60000');
      invalid(dataUri(gif(65_535, 65_535, [1, 1]), 'image/gif'), 'this one has 65535 x 65535');
      invalid('data:image/png,abc', 'a data URI');
      invalid('data:image/png;base64', 'a data URI');
      invalid('data:', 'a data URI');
      for (const data of [
        '',
        `${DATA}=`,
        DATA.slice(0, -1),
        DATA.replace('A', '-'),
        // Has the low byte of `A`.
        DATA.replace('A', '\u0141'),
        `${DATA} x`,
        `${DATA}\u00a0`,
        '%%%%',
      ])
        invalid(`data:image/png;base64,${data}`, data === '' ? 'these bytes are none' : 'valid base64');
      refusal('\ud800', 'invalid_value', 'well-formed');
      for (const url of [
        '',
        'x',
        '/etc/passwd',
        'file:///etc/passwd',
        'ftp://example.com/a',
        'http://example.com/a.png',
      ])
        invalid(url, 'or an `https` URL');
      invalid('https://user:secret@example.com/a.png', 'without a user name');
      invalid(`https://example.com/${'a'.repeat(8192)}`, 'at most 8192 characters');
      for (const host of PRIVATE_HOSTS) invalid(`https://${host}/a.png`, 'a public host');
      for (const port of [22, 80, 8443]) invalid(`https://example.com:${port}/a.png`, 'the port 443');
      for (const host of [
        'example.com',
        '8.8.8.8',
        '[2606:4700::1]',
        'localhost.example.com',
        'example.com.',
        'xn--fiqs8s.xn--fiqs8s',
      ])
        assert.equal(imagesOf(read([image(`https://${host}/a.png`)]))[0]?.file, null);
    });

    test('a model without images refuses them, and says which models take them', () => {
      const request = read([text('x'), image(PIXEL)]);
      refuses(
        () => admitImages(request, null, new Notes()),
        'unsupported_parameter',
        `${path}[1].${field}`,
        'text+image->text',
      );
      admitImages(read([text('x')]), null, new Notes());
    });

    test('a model bounds the number and the size of images, and whether they have URLs', () => {
      const limits = { urls: false, tokens: 300, max: 2, bytes: 1000 };
      const admit = (...urls: string[]) => admitImages(read(urls.map(image)), limits, new Notes());
      admit(PIXEL, PIXEL);
      const param = (index: number) => `${path}[${index}].${field}`;
      const many = Array.from({ length: 50 }, () => PIXEL);
      refuses(() => admit(...many), 'invalid_value', param(2), 'at most 2 images of a request; got 50');
      const large = dataUri(png(1, 1, [1, 1], 1000));
      refuses(() => admit(PIXEL, large), 'invalid_value', param(1), 'at most 1000 bytes; got ');
      const url = 'https://example.com/a.png';
      refuses(() => admit(url), 'unsupported_parameter', param(0), 'must be a data URI');
      const request = read([image(url)]);
      admitImages(request, { ...limits, urls: true }, new Notes());
      assert.equal(request.imageTokens, 300);
    });
  });
}

const PRIVATE_HOSTS = [
  'localhost',
  'LOCALHOST.',
  'localhost..',
  'localhost.localdomain',
  'example..com',
  '127.0.0.1..',
  'db.localhost',
  'printer.local',
  'vllm',
  'metadata.google.internal',
  'wiki.intranet',
  'git.corp',
  'nas.home',
  'nas.home.arpa',
  'nas.lan',
  'vllm.default.svc.cluster.local',
  'db.service.consul',
  'api.k8s',
  'intranet.private.',
  '127.0.0.1',
  '127.1',
  '2130706433',
  '0x7f.1',
  '0',
  '10.0.0.1',
  '192.0.2.1',
  '172.31.255.255',
  '192.168.1.1',
  '169.254.169.254',
  '100.64.0.1',
  '224.0.0.1',
  '255.255.255.255',
  '[::1]',
  '[::]',
  '[::ffff:10.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[::127.0.0.1]',
  '[64:ff9b::a00:1]',
  '[64:ff9b:1::a00:1]',
  '[2001:0:4136:e378:8000:63bf:80ff:fffe]',
  '[2001:db8::1]',
  '[fec0::1]',
  '[4000::1]',
  '[2002:7f00:1::]',
  '[fd00::1]',
  '[fe80::1]',
  '[ff02::1]',
];

test('messages of the system and the assistant cannot have images', () => {
  const part = { type: 'image_url', image_url: { url: PIXEL } };
  const expected = 'only messages of the user and results of tools can have images';
  const code = 'unsupported_parameter';
  for (const role of ['system', 'developer', 'assistant']) {
    const messages = [{ role, content: [part] }];
    refuses(() => chat({ messages }), code, 'messages[0].content[0].image_url.url', expected);
    const input = [{ role, content: [{ type: 'input_image', image_url: PIXEL }] }];
    refuses(() => readResponses({ input }), code, 'input[0].content[0].image_url', expected);
  }
  const block = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: DATA } };
  refuses(() => readMessages({ system: [block] }), code, 'system[0].source.data', expected);
  const turns = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: [block] },
    { role: 'user', content: 'b' },
  ];
  refuses(() => readMessages({ messages: turns }), code, 'messages[1].content[0]', expected);
});

test('the detail of an image is sent if it is set', () => {
  const detailOf = (detail: unknown) =>
    sent(
      chat({
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: PIXEL, detail } }] }],
      }).request,
    );
  const image = (more: object) => [
    { role: 'user', content: [{ type: 'image_url', image_url: { url: PIXEL, ...more } }] },
  ];
  assert.deepEqual(detailOf('low'), image({ detail: 'low' }));
  assert.deepEqual(detailOf(null), image({}));
  const path = 'messages[0].content[0].image_url.detail';
  refuses(() => detailOf('huge'), 'invalid_value', path, 'auto, low, high, original');
  refuses(() => detailOf(1), 'invalid_type', path);
});

const INPUT_IMAGE = { type: 'input_image', image_url: PIXEL };
const BASE64 = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: DATA } };
const LIMITS = { urls: false, tokens: 300, max: 20, bytes: 1000 };

/** Returns the messages that a server gets, as their roles and texts, with `<>` for an image. */
function summary(request: ChatRequest): unknown[] {
  const messages = sent(request) as { role: string; content: string | { type: string; text?: string }[] }[];
  return messages.map(({ role, content }) => [
    role,
    Array.isArray(content) ? content.map((part) => part.text ?? '<>').join('') : content,
  ]);
}

test('images of results are sent in a message of the user after all results, with a note', () => {
  const output = [{ type: 'input_text', text: 'A: ' }, INPUT_IMAGE];
  const part = { type: 'image_url', image_url: { url: PIXEL } };
  const notes = new Notes();
  const requests = [
    readResponses({
      input: [
        { role: 'user', content: 'Look' },
        { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' },
        { type: 'function_call', call_id: '2', name: 'f', arguments: '{}' },
        { type: 'function_call_output', call_id: '1', output },
        { type: 'function_call_output', call_id: '2', output: [INPUT_IMAGE] },
        { role: 'assistant', content: 'I see' },
      ],
    }).request,
    chat({
      messages: [
        { role: 'user', content: 'Look' },
        {
          role: 'assistant',
          tool_calls: ['1', '2'].map((id) => ({
            id,
            type: 'function',
            function: { name: 'f', arguments: '{}' },
          })),
        },
        { role: 'tool', tool_call_id: '1', content: [{ type: 'text', text: 'A: ' }, part] },
        { role: 'tool', tool_call_id: '2', content: [part] },
        { role: 'assistant', content: 'I see' },
      ],
    }).request,
  ];
  for (const request of requests) {
    assert.deepEqual(summary(request), [
      ['user', 'Look'],
      ['assistant', null],
      ['tool', 'A: [image]'],
      ['tool', '[image]'],
      ['user', '<><>'],
      ['assistant', 'I see'],
    ]);
    admitImages(request, LIMITS, notes);
  }
  assert.deepEqual(
    notes.list.map(({ path, what }) => `${path} ${what}`),
    [
      'input[3].output[1].image_url sent in a user message (image of a result)',
      'input[4].output[0].image_url sent in a user message (image of a result)',
      'messages[2].content[1].image_url.url sent in a user message (image of a result)',
      'messages[3].content[0].image_url.url sent in a user message (image of a result)',
    ],
  );
});

/** A request of Claude Code after it has read an image, and the user has sent another one. */
const READ_IMAGE = {
  messages: [
    { role: 'user', content: 'Look' },
    { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'f', input: {} }] },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: '1',
          is_error: true,
          content: [BASE64, { type: 'text', text: 'A' }],
        },
        { type: 'text', text: 'B' },
        BASE64,
        { type: 'text', text: 'C' },
        { type: 'text', text: 'D' },
      ],
    },
  ],
};

test('images of results come before the text of the user that follows', () => {
  assert.deepEqual(summary(readMessages(READ_IMAGE).request), [
    ['user', 'Look'],
    ['assistant', null],
    ['tool', 'Error: [image]A'],
    ['user', '<>B<>C\n\nD'],
  ]);
});

test('a model that takes only text gets a text in the place of images in results and in older messages', () => {
  const { messages } = READ_IMAGE;
  const later = [...messages, { role: 'assistant', content: 'E' }, { role: 'user', content: 'F' }];
  const { request } = readMessages({ messages: later });
  const notes = new Notes();
  admitImages(request, null, notes);
  const left = '[image left out: this model takes only text]';
  assert.deepEqual(summary(request), [
    ['user', 'Look'],
    ['assistant', null],
    ['tool', `Error: ${left}A`],
    ['user', `B${left}C\n\nD`],
    ['assistant', 'E'],
    ['user', 'F'],
  ]);
  const what = 'left out (this model takes only text)';
  assert.deepEqual(notes.list, [
    { path: 'messages[2].content[0].content[0].source.data', what },
    { path: 'messages[2].content[2].source.data', what },
  ]);
  refuses(
    () => admitImages(readMessages({ messages: later }).request, null, new Notes(true)),
    'unsupported_parameter',
    'messages[2].content[0].content[0].source.data',
    'strict',
  );
});

test('a model that takes only text refuses images in the newest message of the user, which can have several parts', () => {
  const refusesImage = (request: ChatRequest, path: string) =>
    refuses(
      () => admitImages(request, null, new Notes()),
      'unsupported_parameter',
      path,
      'this model takes only text',
    );
  refusesImage(readMessages(READ_IMAGE).request, 'messages[2].content[2].source.data');
  const image = { role: 'user', content: [INPUT_IMAGE] };
  const answer = { role: 'assistant', content: 'a' };
  const after = [
    { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: '1', output: 'b' },
  ];
  for (const [input, index] of [
    [[image], 0],
    [[image, { role: 'user', content: 'Look' }], 0],
    [[{ role: 'user', content: 'Hi' }, answer, image, { role: 'developer', content: 'Be brief' }], 2],
    [[image, ...after], 0],
  ] as const)
    refusesImage(readResponses({ input }).request, `input[${index}].content[0].image_url`);
});

test('images in files that the service does not have are refused', () => {
  const file = { type: 'input_image', file_id: 'file-1' };
  const input = [{ role: 'user', content: [file] }];
  refuses(
    () => readResponses({ input }),
    'unsupported_parameter',
    'input[0].content[0].file_id',
    'image_url',
  );
  const source = { type: 'file', file_id: 'file-1' };
  const messages = [{ role: 'user', content: [{ type: 'image', source }] }];
  const path = 'messages[0].content[0].source.type';
  refuses(() => readMessages({ messages }), 'unsupported_parameter', path, 'base64');
});

test('a source of an image without its fields is refused', () => {
  for (const [source, code, field] of [
    [null, 'missing_required_parameter', ''],
    ['x', 'invalid_type', ''],
    [{}, 'missing_required_parameter', '.type'],
    [{ type: 1 }, 'invalid_type', '.type'],
    [{ type: 'text' }, 'invalid_value', '.type'],
    [{ type: 'base64', data: DATA }, 'missing_required_parameter', '.media_type'],
    [{ type: 'base64', data: DATA, media_type: 1 }, 'invalid_type', '.media_type'],
    [{ type: 'base64', data: 'x', media_type: 'image/png' }, 'invalid_value', '.data'],
    [{ type: 'url' }, 'missing_required_parameter', '.url'],
  ] as const) {
    const messages = [{ role: 'user', content: [{ type: 'image', source }] }];
    refuses(() => readMessages({ messages }), code, `messages[0].content[0].source${field}`);
  }
});
