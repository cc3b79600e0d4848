import { Toast } from '@base-ui/react/toast';
import { CircleAlert, CircleCheck, X } from 'lucide-react';
import { toasts } from '../notify.ts';

/** Renders the toasts. Mounted once. */
export function Toasts() {
  return (
    <Toast.Provider toastManager={toasts} timeout={5000} limit={2}>
      <Toast.Portal>
        <Toast.Viewport // At the top, because the menu and the playground have buttons at the bottom. Drawers of phones have one at the top.
          className="fixed inset-x-4 bottom-4 z-50 mx-auto flex flex-col gap-2 sm:top-2 sm:bottom-auto sm:w-96"
        >
          <List />
        </Toast.Viewport>
      </Toast.Portal>
    </Toast.Provider>
  );
}

function List() {
  return Toast.useToastManager().toasts.map((toast) => (
    <Toast.Root
      key={toast.id}
      toast={toast}
      swipeDirection={['up', 'down', 'right']}
      className="flex animate-rise items-center gap-3 rounded-lg border border-line bg-raised py-2.5 pr-2 pl-3.5 shadow-popup data-limited:hidden"
    >
      {toast.type === 'bad' ? (
        <CircleAlert className="size-4 shrink-0 text-bad" />
      ) : (
        <CircleCheck className="size-4 shrink-0 text-good" />
      )}
      <Toast.Title className="min-w-0 flex-1 text-sm break-words text-ink" />
      <Toast.Action className="h-7 rounded-md px-2 text-xs font-medium text-accent hover:bg-hover" />
      <Toast.Close
        aria-label="Close"
        // Base UI hides it from screen readers, although it can be focused.
        aria-hidden={false}
        className="inline-flex size-7 items-center justify-center rounded-md text-ink-3 hover:bg-hover"
      >
        <X className="size-4" />
      </Toast.Close>
    </Toast.Root>
  ));
}
