import { Dialog as Base } from '@base-ui/react/dialog';
import { X } from 'lucide-react';
import { useEffect, useRef, type ReactNode } from 'react';
import { classNames } from './class-names.ts';
import { OverlayHost } from './overlays.tsx';

interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  hint?: ReactNode;
  /** Icon buttons next to the title. */
  tools?: ReactNode;
  /** Buttons in the footer, the primary one last. */
  actions?: ReactNode;
  size?: 'small' | 'medium' | 'large';
  /** Opens as a drawer from the right edge, for details of a row. */
  side?: boolean;
  /** Has a form or a secret: clicks outside do not close it, and the buttons of the footer are the way out. */
  modal?: boolean;
  children?: ReactNode;
}

const SIZES = { small: 'sm:max-w-md', medium: 'sm:max-w-xl', large: 'sm:max-w-3xl' };

/** A dialog. Traps the focus, closes with Escape and restores the focus. */
export function Dialog({
  open,
  onClose,
  title,
  hint,
  tools,
  actions,
  size = 'small',
  side = false,
  modal = false,
  children,
}: DialogProps) {
  const popup = useRef<HTMLDivElement>(null);
  const wasModal = useRef(modal);
  useEffect(() => {
    if (wasModal.current === modal) return;
    wasModal.current = modal;
    // The button that had the focus is gone when a form begins or ends.
    if (open && document.activeElement === document.body) popup.current?.focus();
  }, [modal, open]);
  return (
    <Base.Root open={open} onOpenChange={(isOpen) => !isOpen && onClose()} disablePointerDismissal={modal}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-backdrop transition-opacity duration-150 data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Base.Popup
          ref={popup}
          // Focusing a field on touch devices would open the keyboard over the content.
          initialFocus={(opened) => (opened === 'touch' ? true : firstField(popup.current))}
          className={classNames(
            'fixed z-40 flex flex-col border-line bg-raised shadow-popup outline-none transition duration-200',
            side
              ? 'inset-y-0 right-0 w-full border-l data-ending-style:translate-x-6 data-ending-style:opacity-0 data-starting-style:translate-x-6 data-starting-style:opacity-0 sm:w-[34rem] sm:max-w-[calc(100vw-2rem)]'
              : classNames(
                  'inset-x-0 bottom-0 max-h-[92dvh] w-full rounded-t-2xl border data-ending-style:translate-y-3 data-ending-style:opacity-0 data-starting-style:translate-y-3 data-starting-style:opacity-0',
                  'sm:inset-x-auto sm:top-1/2 sm:bottom-auto sm:left-1/2 sm:-translate-x-1/2 sm:-translate-y-1/2 sm:rounded-2xl',
                  SIZES[size],
                ),
          )}
        >
          <header className="flex items-start justify-between gap-4 px-5 pt-5 sm:px-6">
            <div className="min-w-0">
              <Base.Title className="text-base font-semibold tracking-tight break-words">{title}</Base.Title>
              {hint !== undefined && (
                <Base.Description className="mt-1 text-sm text-ink-3">{hint}</Base.Description>
              )}
            </div>
            <div className="-mt-1 -mr-2 flex shrink-0 gap-1">
              {tools}
              {!modal && (
                <Base.Close
                  aria-label="Close"
                  className="inline-flex size-8 items-center justify-center rounded-md text-ink-3 hover:bg-hover"
                >
                  <X className="size-4" />
                </Base.Close>
              )}
            </div>
          </header>
          <div
            // Lets keyboard users scroll details that have no focusable element.
            tabIndex={side ? 0 : undefined}
            className="min-h-0 flex-1 overflow-y-auto px-5 py-4 focus-visible:-outline-offset-2 sm:px-6"
          >
            {children}
          </div>
          {Boolean(actions) && (
            <footer className="flex flex-wrap justify-end gap-2 border-t border-line px-5 py-4 sm:px-6">
              {actions}
            </footer>
          )}
          {open && <OverlayHost />}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** Returns true if there is no field: the first focusable element then gets the focus. */
function firstField(popup: HTMLElement | null): HTMLElement | true {
  // Selects and switches contain hidden inputs.
  return popup?.querySelector<HTMLElement>('input:not([aria-hidden="true"]), textarea') ?? true;
}
