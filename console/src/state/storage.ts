type Storage = 'localStorage' | 'sessionStorage';

/** Returns the text of the first of these storages that has one; null: none, or they are blocked. */
export function readText(key: string, ...storages: readonly Storage[]): string | null {
  for (const storage of storages) {
    const text = attempt(() => window[storage].getItem(key)) ?? null;
    if (text !== null) return text;
  }
  return null;
}

/** Stores a text; null deletes it. Returns false if the storage is full or blocked. */
export function writeText(storage: Storage, key: string, text: string | null): boolean {
  return (
    attempt(() => {
      if (text === null) window[storage].removeItem(key);
      else window[storage].setItem(key, text);
      return true;
    }) === true
  );
}

/** Returns the keys of the texts of a storage; none if it is blocked. */
export function keysOf(storage: Storage): string[] {
  return attempt(() => Object.keys(window[storage])) ?? [];
}

/** Calls a function of the browser's storage, which throws if the storage is full or blocked. */
function attempt<Value>(access: () => Value): Value | undefined {
  try {
    return access();
  } catch {
    return undefined;
  }
}

/** A choice that is kept on this device. The first value is the default. */
export function deviceChoice<Value extends string>(key: string, values: readonly [Value, ...Value[]]) {
  const before = readText(key, 'localStorage');
  const listeners = new Set<() => void>();
  let chosen = values.find((value) => value === before) ?? values[0];
  const publish = (): void => {
    for (const listener of listeners) listener();
  };
  return {
    get: () => chosen,
    set: (value: Value): void => {
      chosen = value;
      writeText('localStorage', key, value === values[0] ? null : value);
      publish();
    },
    /** Calls the listeners, because what the choice depends on has changed. */
    publish,
    /** Calls the listener after each choice. Returns a function that unsubscribes. */
    subscribe: (listener: () => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}
