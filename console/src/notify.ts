import { Toast } from '@base-ui/react/toast';

/** The toasts, which `Toasts` renders. */
export const toasts = Toast.createToastManager();

/** How long a change can be undone, in milliseconds: long enough for keyboards and screen readers. */
const UNDO_MS = 20_000;

/** Shows a toast, which is also announced to screen readers and disappears after a few seconds. */
export const notify = {
  success: (title: string, undo?: { label: string; run: () => void }) => {
    const onClick = () => {
      toasts.close(id);
      undo?.run();
    };
    const id = toasts.add({
      title,
      type: 'good',
      ...(undo && { actionProps: { children: undo.label, onClick }, timeout: UNDO_MS }),
    });
  },
  error: (title: string) => {
    toasts.add({ title, type: 'bad', priority: 'high', timeout: 10_000 });
  },
};
