type Storage = 'localStorage' | 'sessionStorage';

/** Returns a text that this browser or this tab stores; null: none, or the storage is blocked. */
export function stored(key: string, storage: Storage = 'localStorage'): string | null {
  try {
    return window[storage].getItem(key);
  } catch {
    return null;
  }
}

/** Stores a text; null removes it. Has no effect if the storage is full or blocked. */
export function store(key: string, text: string | null, storage: Storage = 'localStorage'): void {
  try {
    if (text === null) window[storage].removeItem(key);
    else window[storage].setItem(key, text);
  } catch {
    // What is stored here is only for the next visit.
  }
}

/** A choice that is kept on this device. The first value is the default. */
export function deviceChoice<Value extends string>(key: string, values: readonly [Value, ...Value[]]) {
  const before = stored(key);
  const listeners = new Set<() => void>();
  let chosen = values.find((value) => value === before) ?? values[0];
  return {
    get: () => chosen,
    set: (value: Value): void => {
      chosen = value;
      store(key, value === values[0] ? null : value);
      for (const listener of listeners) listener();
    },
    /** Calls the listener after each choice. Returns a function that unsubscribes. */
    subscribe: (listener: () => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
