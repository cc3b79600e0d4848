/** The caller closed the connection before its answer was whole: a reason for aborting, never an answer. */
export class HungUp extends Error {
  constructor(message = 'the client disconnected') {
    super(message);
    this.name = 'HungUp';
  }
}
