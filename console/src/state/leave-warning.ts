import { useEffect } from 'react';

let isSigningOut = false;

/** While `active`, the browser asks before it closes or reloads the page. */
export function useLeaveWarning(active: boolean): void {
  useEffect(() => {
    if (!active) return;
    const ask = (event: BeforeUnloadEvent) => {
      if (!isSigningOut) event.preventDefault();
    };
    addEventListener('beforeunload', ask);
    return () => removeEventListener('beforeunload', ask);
  }, [active]);
}

/** Leaves the page of a user who has signed out, without a question. A full page load drops all cached data. */
export function openSignIn(): void {
  isSigningOut = true;
  location.assign('/sign-in');
}
