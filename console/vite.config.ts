import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import tailwindcss from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';
import * as CONTRACT from '../src/http/api/contract.ts';
import { renderGuide } from './guide.ts';

/** The service that `npm run dev:console` forwards API requests to. */
const SERVICE = process.env.SLUICE_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  root: import.meta.dirname,
  plugins: [contract(), guide(), react(), tailwindcss(), compressed()],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    // The Content-Security-Policy allows no `data:` URLs and no inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: {
    proxy: Object.fromEntries(['/api', '/v1', '/openapi.json', '/readyz'].map((path) => [path, SERVICE])),
  },
});

/** Replaces the contract of the management API by its values: the schemas would add zod to the build. */
function contract(): Plugin {
  const values = Object.entries(CONTRACT)
    .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)};`)
    .join('\n');
  return {
    name: 'contract',
    load: (id) => (id.endsWith('/src/http/api/contract.ts') ? values : null),
  };
}

/** Turns imported `docs/*.md` files into modules with a `GuideContent`. */
function guide(): Plugin {
  return {
    name: 'guide',
    transform(text, id) {
      if (!/\/docs\/[\w-]+\.md$/.test(id)) return null;
      return { code: `export default ${JSON.stringify(renderGuide(text))};`, map: null };
    },
  };
}

/** Compresses each file at build time. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    writeBundle({ dir = '' }) {
      for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
        if (!/\.(?:js|css|html|svg)$/.test(name)) continue;
        const file = join(dir, name);
        const bytes = readFileSync(file);
        writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
        const params = {
          [constants.BROTLI_PARAM_QUALITY]: 11,
          [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
        };
        writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params }));
      }
    },
  };
}
