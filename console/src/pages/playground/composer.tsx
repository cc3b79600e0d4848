import { ArrowUp, Square } from 'lucide-react';
import { useEffect, useRef, type RefObject } from 'react';
import { Button } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { useIsRunning, useModels, usePlayground, usePlaygroundState, useSelectedModels } from './state.tsx';
import { awaitsResults, canRespond, hasInput, hasTurns, type Draft } from './draft.ts';
import { ImageButton, Thumbnails, useAddImages } from './images.tsx';
import { TypedText } from './typed-text.tsx';

export function Composer() {
  const playground = usePlayground();
  const models = useModels();
  const selected = useSelectedModels();
  const isRunning = useIsRunning();
  const addImages = useAddImages();
  const input = usePlaygroundState(({ draft }) => draft.input);
  const images = usePlaygroundState(({ draft }) => draft.images);
  const isAwaiting = usePlaygroundState(({ draft }) => draft.columns.some(awaitsResults));
  const canRun = usePlaygroundState(({ draft }) => draft.columns.some(canRespond));
  const root = useFocusAfter(
    isRunning,
    usePlaygroundState(({ draft }) => draft.id),
  );
  const isTyped = hasInput({ input, images });
  const gone = selected.find((model) => model !== '' && !models.some(({ id }) => id === model));
  const canSend = !isAwaiting && gone === undefined && (isTyped || canRun);
  return (
    <div
      ref={root}
      className="border-t border-line bg-surface pt-2 pb-2 sm:pt-3"
      onPaste={(event) => {
        const { files, types } = event.clipboardData;
        // Formatted text of office programs comes with a picture of it. A copied file comes with its name as text.
        const isText = types.includes('text/plain') && types.includes('text/html');
        if (files.length === 0 || isText) return;
        event.preventDefault();
        addImages(files);
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        if (event.dataTransfer.files.length === 0) return;
        event.preventDefault();
        addImages(event.dataTransfer.files);
      }}
    >
      <div className="mx-auto max-w-3xl px-4 sm:px-6">
        <Starters className="mb-3" />
        <Thumbnails
          images={images}
          onRemove={(removed) => playground.set({ images: images.filter((_, index) => index !== removed) })}
        />
        <TypedText
          label="Message"
          placeholder="Write a message"
          value={input}
          onChange={(text) => playground.set({ input: text })}
          onSend={() => playground.send()}
          enterSends
          className="max-h-60"
        />
        {gone !== undefined && (
          <p role="status" className="mt-2 text-xs break-words text-warn">
            {gone} is not served. Select another model to continue.
          </p>
        )}
        {isAwaiting && isTyped && (
          <p role="status" className="mt-2 text-xs text-ink-3">
            Enter the results of the calls above first.
          </p>
        )}
        <div className="mt-2 flex items-center gap-2">
          <ImageButton />
          <span className="ml-auto">
            <SendOrStop label={canSend && !isTyped ? 'Run' : 'Send'} disabled={!canSend} />
          </span>
        </div>
        <StorageNotice />
      </div>
    </div>
  );
}

/**
 * Focuses the message when a response begins or ends and when another conversation is shown, unless the user moved the
 * focus elsewhere. Returns a ref of the composer. On touch devices the keyboard would cover the response.
 */
function useFocusAfter(isRunning: boolean, conversation: string): RefObject<HTMLDivElement | null> {
  const root = useRef<HTMLDivElement>(null);
  const shown = `${conversation} ${isRunning}`;
  const last = useRef(shown);
  useEffect(() => {
    if (last.current === shown) return;
    last.current = shown;
    const { activeElement } = document;
    const isFree = activeElement === document.body || root.current?.contains(activeElement) === true;
    if (isFree && matchMedia('(pointer: fine)').matches) root.current?.querySelector('textarea')?.focus();
  }, [shown]);
  return root;
}

/** The send button; a stop button while a response is in progress. */
function SendOrStop({ label, disabled }: { label: string; disabled: boolean }) {
  const playground = usePlayground();
  const isRunning = useIsRunning();
  if (isRunning) {
    return (
      <Button
        icon={<Square className="size-3.5 fill-current" />}
        onClick={(event) => {
          // The second click of a double click on Send, which was in the same place.
          if (event.detail !== 2) playground.stop();
        }}
      >
        Stop
        <Keys>Esc</Keys>
      </Button>
    );
  }
  return (
    <Button kind="primary" disabled={disabled} icon={<ArrowUp />} onClick={() => playground.send()}>
      {label}
      <Keys>↵</Keys>
    </Button>
  );
}

/** A keyboard shortcut hint, for devices with a keyboard. */
function Keys({ children }: { children: string }) {
  return (
    <kbd aria-hidden="true" className="hidden font-sans text-2xs font-normal lg:pointer-fine:inline">
      {children}
    </kbd>
  );
}

interface Starter {
  title: string;
  values: Partial<Pick<Draft, 'system' | 'input'>>;
}

const STARTERS: readonly Starter[] = [
  {
    title: 'Explain a concept',
    values: { input: 'Why is the sky blue? Explain it to a ten-year-old in three sentences.' },
  },
  {
    title: 'Write a function',
    values: {
      input:
        'Write a TypeScript function that groups an array of objects by a key, with a short usage example.',
    },
  },
  {
    title: 'Play a role',
    values: {
      system: 'You are the harbor master of a small port in 1890. You are brief and a little gruff.',
      input: 'Where can I moor my sailboat for the night?',
    },
  },
];

/** Prompt starters of an unused playground. They are filled in but not sent. */
function Starters({ className }: { className: string }) {
  const playground = usePlayground();
  if (usePlaygroundState(({ draft }) => hasTurns(draft))) return null;
  return (
    <ul aria-label="Prompt starters" className={classNames('grid gap-2 sm:grid-cols-3', className)}>
      {STARTERS.map(({ title, values }) => (
        <li key={title}>
          <button
            type="button"
            onClick={() => playground.set(values)}
            className="h-full w-full rounded-lg border border-line px-3 py-2 text-left transition-colors hover:bg-hover"
          >
            <span className="block truncate text-xs font-medium">{title}</span>
            <span className="line-clamp-1 text-2xs text-ink-3 sm:line-clamp-2">{values.input}</span>
          </button>
        </li>
      ))}
    </ul>
  );
}

/** States where the playground is stored, or that it is not. */
function StorageNotice() {
  const isStored = usePlaygroundState((state) => state.isStored);
  const storesImages = usePlaygroundState((state) => state.storesImages);
  return (
    <p className="mt-2 text-2xs text-ink-3">
      {isStored ? (
        <span className="max-sm:sr-only">Stored only in this browser, until you sign out.</span>
      ) : (
        <span role="alert" className="text-bad">
          Not stored: the storage of this browser is full or blocked. The playground is lost when you close or
          reload this page. Delete conversations to make room.
        </span>
      )}{' '}
      {!storesImages && (
        <span role="status">
          The images are too large to be stored, and are lost when you close or reload this page.{' '}
        </span>
      )}
    </p>
  );
}
