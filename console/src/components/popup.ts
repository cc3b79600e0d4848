/** How everything looks that opens above the page beside what opened it. */
export const POPUP = 'animate-rise rounded-lg border border-line bg-raised p-1 shadow-popup outline-none';
