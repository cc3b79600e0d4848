import { Popover } from '@base-ui/react/popover';
import type { RefObject } from 'react';
import { FORM_POPUP } from './popup.ts';
import type { SavedItems } from './saved-items.ts';
import { SavedList } from './saved-list.tsx';

/** A view of a table: the URL parameters of its filters and its order. */
export interface View {
  query: string;
}

interface ViewsPopupProps {
  /** The button that opens and closes it. */
  button: RefObject<HTMLButtonElement | null>;
  open: boolean;
  onClose: () => void;
  views: SavedItems<View>;
  /** What is shown now. */
  current: View;
  isShown: (view: View) => boolean;
  onShow: (view: View) => void;
}

/** The saved views of a table. Loaded when it is first opened. */
export default function ViewsPopup({
  button,
  open,
  onClose,
  views,
  current,
  isShown,
  onShow,
}: ViewsPopupProps) {
  return (
    <Popover.Root
      open={open}
      onOpenChange={(isOpen, { reason, event }) => {
        // The click on the button that follows closes the popup.
        const isOnButton =
          reason === 'outside-press' && button.current?.contains(event.target as Node | null);
        if (!isOpen && isOnButton !== true) onClose();
      }}
    >
      <Popover.Portal>
        <Popover.Positioner
          anchor={button}
          sideOffset={4}
          align="end"
          collisionPadding={12}
          className="z-40 outline-none"
        >
          <Popover.Popup aria-label="Views" finalFocus={button} className={FORM_POPUP}>
            <SavedList
              items={views}
              label="Saved views"
              what="View"
              saveLabel="Save the current filters as"
              current={() => current}
              isCurrent={isShown}
              onOpen={onShow}
            />
            <p className="mt-2 text-xs text-ink-3">Stored only in this browser, until you sign out.</p>
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}
