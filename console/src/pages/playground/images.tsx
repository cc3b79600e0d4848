import { ImagePlus, X } from 'lucide-react';
import { useRef } from 'react';
import { IconButton } from '../../components/button.tsx';
import { bytes } from '../../format/number.ts';
import { notify } from '../../notify.ts';
import { IMAGE_TYPES, MAX_IMAGE_BYTES, refusalOf, takesImages } from './image-files.ts';
import { useModels, usePlayground, useSelectedModels } from './state.tsx';

/** Returns a function that adds image files to the message, or says why it cannot. */
export function useAddImages(): (files: Iterable<File>) => void {
  const playground = usePlayground();
  const models = useModels();
  return (files) => {
    const list = [...files];
    if (list.length === 0) return;
    const textOnly = playground.state.draft.columns.find(({ model }) => !takesImages(models, model));
    const refusals = [
      textOnly ? `${textOnly.model} takes only text. Select a model that takes images.` : null,
      ...list.map(refusalOf),
    ];
    const refusal = refusals.find((why) => why !== null);
    if (refusal) return notify.error(refusal);
    Promise.all(list.map(dataUriOf)).then(
      (images) => playground.change((draft) => ({ ...draft, images: [...draft.images, ...images] })),
      () => notify.error('A file could not be read'),
    );
  };
}

function dataUriOf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    // `readAsDataURL` returns a string.
    reader.addEventListener('load', () => resolve(reader.result as string));
    reader.addEventListener('error', () => reject(reader.error ?? new Error('not read')));
    reader.readAsDataURL(file);
  });
}

/** Opens a dialog to choose images. Disabled unless all selected models take images. */
export function ImageButton() {
  const models = useModels();
  const selected = useSelectedModels();
  const add = useAddImages();
  const input = useRef<HTMLInputElement>(null);
  const canAdd = selected.every((model) => takesImages(models, model));
  return (
    <>
      <input
        ref={input}
        type="file"
        accept={IMAGE_TYPES.join(',')}
        multiple
        hidden
        aria-label="Images"
        onChange={({ target }) => {
          add(target.files ?? []);
          // The same file can be chosen again.
          target.value = '';
        }}
      />
      <IconButton
        label={
          canAdd
            ? `Add images (PNG, JPEG, GIF or WebP, up to ${bytes(MAX_IMAGE_BYTES)})`
            : 'Images are for models that take them'
        }
        disabled={!canAdd}
        onClick={() => input.current?.click()}
      >
        <ImagePlus />
      </IconButton>
    </>
  );
}

/** The images of a message. `onRemove`: removes the one at an index. */
export function Thumbnails({
  images,
  onRemove,
}: {
  images: readonly string[];
  onRemove?: (index: number) => void;
}) {
  if (images.length === 0) return null;
  return (
    <ul aria-label="Images" className="mb-2 flex flex-wrap gap-2">
      {images.map((image, index) => (
        // The same image can be added twice.
        // oxlint-disable-next-line react/no-array-index-key
        <li key={index} className="relative">
          <img
            src={image}
            alt={`Attachment ${index + 1}`}
            className="h-20 max-w-40 rounded-lg border border-line bg-sunken object-contain"
          />
          {onRemove && (
            <IconButton
              label={`Remove image ${index + 1}`}
              className="absolute top-0 right-0 bg-surface"
              onClick={() => onRemove(index)}
            >
              <X />
            </IconButton>
          )}
        </li>
      ))}
    </ul>
  );
}
