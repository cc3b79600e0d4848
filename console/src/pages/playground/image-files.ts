import { bytes } from '../../format/number.ts';
import type { Model } from './model-text.ts';

/** The images that the API takes. */
export const IMAGE_TYPES: readonly string[] = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** Maximum size of an image, in bytes: the default of the service. */
export const MAX_IMAGE_BYTES = 10_485_760;

/** Returns why a file cannot be added to a message; null: it can. */
export function refusalOf({ name, type, size }: Pick<File, 'name' | 'type' | 'size'>): string | null {
  if (!IMAGE_TYPES.includes(type)) return `${name} is not a PNG, JPEG, GIF or WebP image.`;
  if (size > MAX_IMAGE_BYTES) return `${name} is larger than ${bytes(MAX_IMAGE_BYTES)}.`;
  return null;
}

export function takesImages(models: readonly Pick<Model, 'id' | 'modality'>[], id: string): boolean {
  const [input = ''] = models.find((model) => model.id === id)?.modality?.split('->') ?? [];
  return input.split('+').includes('image');
}

/** Maximum size of an image in a code sample, in characters. */
const MAX_SAMPLE = 2048;

/**
 * Replaces the data of large images in a request with placeholders, such as `BASE64_OF_IMAGE_1`, because code with megabytes
 * of text is of no use. Returns the number of placeholders too.
 */
export function withoutLargeImages<Body extends object>(
  request: Body,
): { request: Body; placeholders: number } {
  let placeholders = 0;
  const text = JSON.stringify(request, (_name, value: unknown) => {
    if (typeof value !== 'string' || value.length <= MAX_SAMPLE || !value.startsWith('data:image/'))
      return value;
    placeholders++;
    return `${value.slice(0, value.indexOf(',') + 1)}BASE64_OF_IMAGE_${placeholders}`;
  });
  return placeholders === 0 ? { request, placeholders } : { request: JSON.parse(text) as Body, placeholders };
}
