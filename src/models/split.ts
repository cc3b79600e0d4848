const SPLIT_NAME = /^(.+)-(\d{5})-of-(\d{5})\.gguf$/;

/** Most files that one model may be split into. */
const MAX_FILES = 1000;

/**
 * The names of all files of the model that `name` belongs to, in order: `name` alone where it is not split,
 * else `…-00001-of-00003.gguf` and its siblings, whichever of them was given.
 */
export function splitFiles(name: string): readonly string[] {
  const [, stem, number, count] = SPLIT_NAME.exec(name) ?? [];
  const files = Number(count);
  if (stem === undefined || files < 1 || files > MAX_FILES || Number(number) < 1 || Number(number) > files) {
    return [name];
  }
  return Array.from(
    { length: files },
    (_, index) => `${stem}-${String(index + 1).padStart(5, '0')}-of-${count}.gguf`,
  );
}
