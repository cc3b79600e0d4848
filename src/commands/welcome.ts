import { extname } from 'node:path';
import type { Service } from '../service.ts';

/** How the program is called: through npm in a clone, by its name when installed. */
const PROGRAM = extname(import.meta.filename) === '.ts' ? 'npm run --silent sluice --' : 'sluice';

/** What to do next, once the service can generate. On a terminal, and only while there is no key, with a first key. */
export async function welcome(service: Service): Promise<string> {
  const card = service.router.cards()[0];
  const lines = ['', `Ready. Base URL for client libraries: ${service.url}/v1`];
  if (card) {
    lines.push(`Model: ${card.id} (${card.quantization}, ${card.context_length} tokens a request)`);
  }
  const model = card?.id ?? '<namespace>/<model_name>';
  if (process.stdout.isTTY && (await service.keys.count()) === 0) {
    const { key } = await service.keys.create({ name: 'first key' });
    lines.push('', 'Your first key, shown this once, in a call to paste into another terminal:', '');
    lines.push(curl(service.url, key.reveal(), model));
    lines.push('', 'More keys:');
  } else {
    lines.push('', 'Make a key:');
  }
  lines.push(`  ${PROGRAM} keys create --name my-app`, '');
  return lines.join('\n');
}

/** At temperature 0, since a small default model makes little sense when it is let wander. */
function curl(url: string, key: string, model: string): string {
  const body = {
    model,
    messages: [{ role: 'user', content: 'Say hello in five words.' }],
    temperature: 0,
  };
  return [
    `curl ${url}/v1/chat/completions \\`,
    `  -H 'Authorization: Bearer ${key}' \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '${JSON.stringify(body)}'`,
  ].join('\n');
}
