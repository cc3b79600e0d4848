/** Classes of menus, selects and popovers. */
export const POPUP = 'animate-rise rounded-lg border border-line bg-raised p-1 shadow-popup outline-none';
