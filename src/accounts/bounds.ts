/** Items of a page of a list, unless said otherwise. */
export const DEFAULT_PAGE = 50;

/** Most items of a page of a list. */
export const MAX_PAGE = 1000;

/** Most rows of a page of the log of requests. */
export const MOST_REQUESTS = 200;

/** Most models that one key names. */
export const MAX_MODELS = 100;
