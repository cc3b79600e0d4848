import { isIP } from 'node:net';

/** The values that `isHost` accepts. */
export const HOST_FORM = 'an IP address or a host name';

export function isHost(text: string): boolean {
  return isIP(text) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]{0,252})$/.test(text);
}

/** The values that `isPort` accepts. */
export const PORT_FORM = 'a port from 1 to 65535, or 0 for any free port';

export function isPort(text: string): boolean {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535;
}
