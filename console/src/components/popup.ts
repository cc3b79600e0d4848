export const POPUP = 'animate-rise rounded-lg border border-line bg-raised p-1 shadow-popup outline-none';

/** Classes of popovers with a form or a list, which scroll if the window is small. */
export const FORM_POPUP = `${POPUP} max-h-[var(--available-height)] w-84 max-w-[var(--available-width)] overflow-y-auto p-4`;
