/**
 * Runs in a separate thread of every engine process. Standard input closes when the service exits. The main thread then
 * has one second to exit. After that, this thread kills the process, even if native code blocks the main thread.
 */
import { Socket } from 'node:net';

const EXIT_TIMEOUT_MS = 1000;

new Socket({ fd: 0, readable: true, writable: false })
  .on('error', () => {})
  .on('close', () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), EXIT_TIMEOUT_MS))
  .resume();
