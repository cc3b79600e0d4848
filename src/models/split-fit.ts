import { stat } from 'node:fs/promises';
import { mustFit } from './disk.ts';
import { installedRecord, type FetchTools, type WantedFile } from './fetch-file.ts';
import { findHubFile } from './hub.ts';
import { partPath } from './layout.ts';
import { PullError } from './pull-error.ts';

/**
 * Refuses a split model that the disk cannot hold as a whole, before its first part is fetched. Only a hub tells
 * lengths beforehand; where nothing tells them, each part is checked when it begins.
 * @throws PullError `disk_full`
 */
export async function allMustFit(files: readonly WantedFile[], tools: FetchTools): Promise<void> {
  if (files.length < 2) return;
  let neededBytes = 0;
  for (const wanted of files) {
    if ((await installedRecord(wanted.file)) !== null) continue;
    const total = await toldBytes(wanted, tools);
    if (total === null) return;
    const begun = await stat(partPath(wanted.file)).then(
      ({ size }) => size,
      () => 0,
    );
    neededBytes += Math.max(0, total - begun);
  }
  await mustFit(tools.layout.folder, neededBytes, tools.freeBytes);
}

async function toldBytes(wanted: WantedFile, tools: FetchTools): Promise<number | null> {
  const [source] = wanted.sources;
  if (source?.kind !== 'hub') return null;
  try {
    return (await findHubFile(source, tools.env, tools.client, tools.signal)).sizeBytes;
  } catch (error) {
    // The fetch that follows meets the same fault, and says so with the other sources.
    if (error instanceof PullError) return null;
    throw error;
  }
}
